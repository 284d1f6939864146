package main

import "github.com/twmb/franz-go/pkg/kmsg"

// Each version of SaslHandshake and SaslAuthenticate, on a listener without SASL: what logs in uses one version of each.
func saslRequests() {
	for version := int16(0); version <= 1; version++ {
		cl := client(17, version)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = "PLAIN"
		ask(cl, req)
		cl.Close()
	}
	for version := int16(0); version <= 2; version++ {
		cl := client(36, version)
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = []byte("\x00alice\x00secret")
		ask(cl, req)
		cl.Close()
	}
}
