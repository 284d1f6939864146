module minibroker/tests/clients/members/logins

go 1.26.0
