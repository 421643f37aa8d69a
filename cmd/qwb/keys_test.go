package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each kind of key takes what it signed, and no other message.
func TestKeys(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	message := []byte("a message")
	sum := sha256.Sum256(message)
	for _, k := range []struct {
		signer crypto.Signer
		what   []byte
		opts   crypto.SignerOpts
	}{{ed, message, crypto.Hash(0)}, {ec, sum[:], crypto.SHA256}, {rs, sum[:], &rsa.PSSOptions{SaltLength: 32, Hash: crypto.SHA256}},
		{rs, sum[:], crypto.SHA256}} {
		sig, err := k.signer.Sign(rand.Reader, k.what, k.opts)
		require.NoError(t, err)
		der, err := x509.MarshalPKIXPublicKey(k.signer.Public())
		require.NoError(t, err)
		made, err := signatureCheck(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		require.NoError(t, err)
		require.True(t, made(message, sig))
		require.False(t, made([]byte("another"), sig))
		require.False(t, made(message, nil))
	}
	_, err = signatureCheck(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}}))
	require.Error(t, err)
}
