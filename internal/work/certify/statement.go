package certify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/internal/strictjson"
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
	b, err := strictjson.Indented(statement{statementType, c.subjects(), predicateType, sealed})
	if err != nil || form == FormStatement {
		return b, err
	}
	return strictjson.Indented(envelope{payloadType, b, []signature{}})
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

// Key is a public key that an envelope may have been signed with.
type Key struct {
	Name string // for people: that of its file
	// Made reports whether the key made a signature of a message.
	Made func(message, signature []byte) bool
}

// signedBy reports whether the key made one of the signatures of the payload.
func (o *opened) signedBy(key Key) bool {
	signed := preAuthenticated(payloadType, o.payload)
	return slices.ContainsFunc(o.signatures, func(s signature) bool { return key.Made(signed, s.bytes()) })
}

// preAuthenticated is what a signature of a DSSE envelope is of: its protocol, "PAE".
func preAuthenticated(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

// bytes is the signature itself, nil where it is none.
func (s signature) bytes() []byte {
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s.Sig, "="))
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}
