package certify

import (
	"bytes"
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

// A signature is held to the payload in its envelope, in both alphabets of base64.
func TestSignatures(t *testing.T) {
	_, text := written(t, FormEnvelope)
	o, err := unwrap("c.json", text)
	require.NoError(t, err)
	want := fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(o.payload), o.payload)
	key := Key{Name: "k", Made: func(message, sig []byte) bool { return string(message) == want && string(sig) == "\xfb\xff" }}
	require.False(t, o.signedBy(key))
	for _, sig := range []string{"+/8=", "-_8"} {
		o.signatures = []signature{{Sig: "AAAA"}, {Sig: "?"}, {Sig: sig}}
		require.True(t, o.signedBy(key), sig)
	}
	o.payload[0] ^= 1
	require.False(t, o.signedBy(key))
}
