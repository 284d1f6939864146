"""The HTTP server of a broker: one server for the lab, the metrics, the health check and the console.

server.py    ports and the sites on them; the protocol of a site
sessions.py  logins of visitors as users of the broker
sockets.py   sockets that listen, and the number of connections
tls.py       HTTPS with the certificate of a listener
access.py    which requests a site rejects before its handlers run: pages of other sites, wrong host names, missing tokens

A site is an object with routes (`HttpSite`). Sites with the same address share its port. A broker without a site imports nothing from here.
"""
