package certify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

func written(t *testing.T, form string) (file string, text []byte) {
	t.Helper()
	c := &Certificate{Format: certificateFormat, Version: certificateVersion, Verifications: []Certified{}, Samples: []string{},
		Data: CertifiedData{Paths: []string{}}, Plan: CertifiedPlan{Path: "m.plan.json"},
		Exports: []CertifiedFile{{Path: "m.onnx", SHA256: "aa", Parts: []plan.File{{Path: "m.bin", SHA256: "bb"}}},
			{Path: "m.bin", SHA256: "bb"}}}
	sealed, err := SealCertificate(c)
	require.NoError(t, err)
	text, err = c.inForm(sealed, form)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file, text
}

func job() *open.Job { return &open.Job{Project: &open.Project{Store: store.OS{}}} }

// Every form is read back to the same certificate. A statement is about each file of the exports once.
func TestForms(t *testing.T) {
	for _, form := range Forms() {
		file, _ := written(t, form)
		require.True(t, isCertificate(job(), file), form)
		o, err := openCertificate(job(), file)
		require.NoError(t, err, form)
		require.Equal(t, "m.plan.json", o.Certificate.Plan.Path, form)
		if form != FormCertificate {
			require.Equal(t, []subject{{"m.onnx", map[string]string{"sha256": "aa"}}, {"m.bin", map[string]string{"sha256": "bb"}}},
				o.statement.Subject)
		}
	}
}

// What was changed in a statement, in its subjects or in the certificate in it, is found without any signature.
func TestChangedStatement(t *testing.T) {
	file, text := written(t, FormStatement)
	for what, want := range map[string]error{`"sha256": "aa"`: errSubjects, `"path": "m.bin"`: errSeal, `"name": "m.bin"`: errSubjects} {
		changed := bytes.Replace(text, []byte(what), []byte(what[:len(what)-2]+`x"`), 1)
		require.NotEqual(t, text, changed)
		require.NoError(t, os.WriteFile(file, changed, 0o600))
		_, err := openCertificate(job(), file)
		require.ErrorIs(t, err, want, what)
	}
	for change, says := range map[[2]string]string{{predicateType, "urn:other"}: "qwb writes and reads",
		{`"subject"`, `"subjects"`}: "in-toto statement"} {
		require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1), 0o600))
		_, err := openCertificate(job(), file)
		require.ErrorContains(t, err, says)
	}
}

// Signatures of all kinds of keys are taken, in both alphabets of base64, and no other.
func TestSignatures(t *testing.T) {
	_, text := written(t, FormEnvelope)
	o, err := unwrap("c.json", text)
	require.NoError(t, err)
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	message := []byte("DSSEv1 28 application/vnd.in-toto+json ")
	message = fmt.Appendf(message, "%d %s", len(o.payload), o.payload)
	sum := sha256.Sum256(message)
	sign := func(s crypto.Signer, message []byte, o crypto.SignerOpts) string {
		sig, err := s.Sign(rand.Reader, message, o)
		require.NoError(t, err)
		return base64.URLEncoding.EncodeToString(sig)
	}
	keys := map[string]crypto.PublicKey{"ed": edPublic, "ec": &ec.PublicKey, "rsa": &rs.PublicKey}
	for name, sig := range map[string]string{"ed": sign(ed, message, crypto.Hash(0)), "ec": sign(ec, sum[:], crypto.SHA256),
		"rsa": sign(rs, sum[:], &rsa.PSSOptions{SaltLength: 32, Hash: crypto.SHA256})} {
		o.signatures = []signature{{Sig: "AAAA"}, {Sig: sig}}
		require.Equal(t, []string{name}, o.signedBy(keys))
		o.payload[0] ^= 1
		require.Empty(t, o.signedBy(keys), "%s: another payload", name)
		o.payload[0] ^= 1
	}
}
