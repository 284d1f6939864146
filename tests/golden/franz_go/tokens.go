package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken, one request at each version.
func tokens(user, password string) {
	login := kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
	one := func(version int16, req kmsg.Request) kmsg.Response {
		cl := client(req.Key(), version, login)
		defer cl.Close()
		return ask(cl, req)
	}
	var hmac []byte
	for version := int16(1); version <= 3; version++ {
		create := kmsg.NewPtrCreateDelegationTokenRequest()
		create.MaxLifetimeMillis = int64(version-2) * 7_200_000
		if version > 1 {
			renewer := kmsg.NewCreateDelegationTokenRequestRenewer()
			renewer.PrincipalType, renewer.PrincipalName = "User", "bob"
			create.Renewers = append(create.Renewers, renewer)
		}
		if version >= 3 {
			create.OwnerPrincipalType, create.OwnerPrincipalName = str("User"), str(user)
		}
		hmac = one(version, create).(*kmsg.CreateDelegationTokenResponse).HMAC
	}
	time.Sleep(500 * time.Millisecond) // the broker hears of tokens from its controller
	for version := int16(1); version <= 2; version++ {
		renew := kmsg.NewPtrRenewDelegationTokenRequest()
		renew.HMAC, renew.RenewTimeMillis = hmac, int64(version)*1_800_000
		one(version, renew)
	}
	for version := int16(1); version <= 3; version++ {
		describe := kmsg.NewPtrDescribeDelegationTokenRequest()
		if version > 1 {
			owner := kmsg.NewDescribeDelegationTokenRequestOwner()
			owner.PrincipalType, owner.PrincipalName = "User", user
			describe.Owners = append(describe.Owners, owner)
		}
		one(version, describe)
	}
	for version := int16(1); version <= 2; version++ {
		expire := kmsg.NewPtrExpireDelegationTokenRequest()
		expire.HMAC, expire.ExpiryPeriodMillis = hmac, int64(version)*600_000
		one(version, expire)
	}
}
