package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"

	"qwb"
	"qwb/internal/file"
)

// publicKeys reads keys or certificates in PEM.
func publicKeys(files []string) (list []qwb.CertificateKey, err error) {
	for _, name := range files {
		b, err := readKey(name)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		made, err := signatureCheck(b)
		if err != nil {
			return nil, usagef("--key %s: %v", name, err)
		}
		list = append(list, qwb.CertificateKey{Name: name, Made: made})
	}
	return list, nil
}

// maxKey is how many bytes of a file with a key are read.
const maxKey = 1 << 20

func readKey(name string) ([]byte, error) {
	f, err := file.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxKey))
}

// signatureCheck is how signatures by a key are checked: Ed25519 of the message, else of its SHA-256 as ECDSA in ASN.1, or RSA by PSS or
// PKCS #1.
func signatureCheck(text []byte) (func(message, sig []byte) bool, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("no public key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if cert, certErr := x509.ParseCertificate(block.Bytes); err != nil && certErr == nil {
		key = cert.PublicKey
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
		return func(message, sig []byte) bool { return ed25519.Verify(key, message, sig) }, nil
	case *ecdsa.PublicKey:
		return func(message, sig []byte) bool {
			sum := sha256.Sum256(message)
			return ecdsa.VerifyASN1(key, sum[:], sig)
		}, nil
	case *rsa.PublicKey:
		return func(message, sig []byte) bool {
			sum := sha256.Sum256(message)
			return rsa.VerifyPSS(key, crypto.SHA256, sum[:], sig, nil) == nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig) == nil
		}, nil
	}
	return nil, fmt.Errorf("a public key of Ed25519, ECDSA or RSA is needed (PEM, PUBLIC KEY or CERTIFICATE)")
}
