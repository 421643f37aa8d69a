package certify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/internal/strictjson"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// Forms of a certificate's file. Each has the whole certificate.
const (
	FormCertificate = "certificate" // as it is
	FormStatement   = "statement"   // an in-toto statement, whose predicate it is
	FormEnvelope    = "envelope"    // a DSSE envelope of that statement, for others to sign
)

// Forms are all forms of a certificate's file.
func Forms() []string { return []string{FormCertificate, FormStatement, FormEnvelope} }

// What the outer forms say that they are: in-toto's Attestation Framework, Statement v1; DSSE, Envelope v1.0.0.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "urn:qwb:certificate:1"
	payloadType   = "application/vnd.in-toto+json"
)

type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// subject is a file that a statement is about.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"` // by algorithm; here sha256
}

type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"` // in JSON base64
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"` // base64, standard or for URLs
	// Cert is what some tools add; it decides nothing here.
	Cert string `json:"cert,omitempty"`
}

// subjects are the files that a certificate is about: all of its exports.
func (c *Certificate) subjects() (list []subject) {
	add := func(name, sum string) {
		if s := (subject{name, map[string]string{"sha256": sum}}); !slices.ContainsFunc(list, s.is) {
			list = append(list, s)
		}
	}
	for i := range c.Exports {
		for _, f := range c.Exports[i].files() {
			add(f.Path, f.SHA256)
		}
	}
	return list
}

func (s subject) is(o subject) bool {
	return s.Name == o.Name && s.Digest["sha256"] == o.Digest["sha256"]
}

// inForm returns the file of a sealed certificate in a form.
func (c *Certificate) inForm(sealed []byte, form string) ([]byte, error) {
	if form == "" || form == FormCertificate {
		return sealed, nil
	}
	b, err := indented(statement{statementType, c.subjects(), predicateType, sealed})
	if err != nil || form == FormStatement {
		return b, err
	}
	return indented(envelope{payloadType, b, []signature{}})
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// opened is a certificate out of whatever form it was in.
type opened struct {
	*Certificate
	text       []byte     // of the certificate
	statement  *statement // nil: it was in none
	payload    []byte     // that is signed
	signatures []signature
}

// unwrap finds the certificate in a file. errOther says that the file is something else.
func unwrap(name string, b []byte) (o *opened, err error) {
	o = &opened{}
	var head struct {
		Format      string `json:"format"`
		Type        string `json:"_type"`
		PayloadType string `json:"payloadType"`
	}
	if json.Unmarshal(b, &head) != nil {
		return o, errOther
	}
	if head.PayloadType == payloadType {
		var e envelope
		if err := json.Unmarshal(b, &e); err != nil { // other tools may add keys
			return o, fmt.Errorf("%s: DSSE envelope: %w", name, err)
		}
		o.payload, o.signatures = e.Payload, e.Signatures
		b, head.Type = e.Payload, statementType
	}
	if head.Type != statementType {
		if o.text = b; head.Format != certificateFormat {
			err = errOther
		}
		return o, err
	}
	o.statement = &statement{}
	if err := strictjson.Decode(name, b, o.statement); err != nil {
		return o, fmt.Errorf("in-toto statement: %w", err)
	}
	if o.statement.PredicateType != predicateType {
		return o, fmt.Errorf("%s: a statement of %q: qwb writes and reads %q", name, o.statement.PredicateType, predicateType)
	}
	o.text = o.statement.Predicate
	return o, nil
}

// errOther is about a file that is no certificate in any form.
var errOther = errors.New("this is no certificate")

// errSubjects is about a statement that is not what was written.
var errSubjects = errors.New("its subjects are not the files of the certificate in it")

// holds reports whether a statement is about the files of its certificate.
func (s *statement) holds(c *Certificate) bool {
	want := c.subjects()
	return len(s.Subject) == len(want) && !slices.ContainsFunc(want, func(w subject) bool { return !slices.ContainsFunc(s.Subject, w.is) })
}

// signedBy says which of the keys made a signature of the payload. The names are those of the keys' files.
func (o *opened) signedBy(keys map[string]crypto.PublicKey) (names []string) {
	signed := preAuthenticated(payloadType, o.payload)
	for name, key := range keys {
		if slices.ContainsFunc(o.signatures, func(s signature) bool { return s.by(key, signed) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// preAuthenticated is what a signature of a DSSE envelope is of: its protocol, "PAE".
func preAuthenticated(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

// by reports whether a key made the signature: Ed25519 of the message, else of its SHA-256 as ECDSA in ASN.1 or RSA, PSS or PKCS #1.
func (s signature) by(key crypto.PublicKey, message []byte) bool {
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s.Sig, "="))
	sig, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(message)
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, sig)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], sig)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], sig, nil) == nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig) == nil
	}
	return false
}

// publicKeys reads keys or certificates in PEM.
func publicKeys(j *open.Job, files []string) (map[string]crypto.PublicKey, error) {
	keys := map[string]crypto.PublicKey{}
	for _, name := range files {
		b, err := store.ReadFile(j.Files(), name, maxKey)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, fault.Usagef("--key %s: no public key in PEM", name)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if cert, certErr := x509.ParseCertificate(block.Bytes); err != nil && certErr == nil {
			key, err = cert.PublicKey, nil
		}
		switch key.(type) {
		case ed25519.PublicKey, *ecdsa.PublicKey, *rsa.PublicKey:
			keys[name] = key
		default:
			return nil, fault.Usagef("--key %s: a public key of Ed25519, ECDSA or RSA is needed (PEM, PUBLIC KEY or CERTIFICATE)", name)
		}
		if err != nil {
			return nil, fault.Usagef("--key %s: %v", name, err)
		}
	}
	return keys, nil
}

const maxKey = 1 << 20 // bytes of a file with a key
