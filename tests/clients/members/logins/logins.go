// Package logins plays the logins of tests/clients/logins.py, where cases and answers are described, with any client in Go.
package logins

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Login is a case.
type Login struct {
	Name, Bootstrap, Mechanism, User, Password, Token, Ca, Certificate, Topic string
	Refused, DelegationToken                                                  bool
}

// TLS returns the configuration with the CA and the certificate of the case.
func (each Login) TLS() (*tls.Config, error) {
	pem, err := os.ReadFile(each.Ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if each.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(each.Certificate, each.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Play plays all cases of a file at once, and prints a line for each.
func Play(file string, play func(Login) error) {
	var cases []Login
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for _, each := range cases {
		all.Add(1)
		go func() {
			defer all.Done()
			outcome := "ok"
			if err := play(each); err != nil {
				outcome = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			fmt.Printf("%s\t%s\n", each.Name, outcome)
		}()
	}
	all.Wait()
}
