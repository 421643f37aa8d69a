package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/decision"
)

// A plan that another JSON program wrote has the same hash, however that spells numbers and letters; one with other numbers has not.
func TestHashKnowsNoSpelling(t *testing.T) {
	hash := func(evidence string) string {
		p := &Plan{Decisions: []decision.Decision{{Params: json.RawMessage(`{}`), Evidence: json.RawMessage(evidence)}}}
		h, err := p.Hash()
		require.NoError(t, err)
		return h
	}
	own := hash(`{"nsr":0.0000724,"list":[1,{"a":-0.5,"b":[]},[2,3]],"who":"Ä<b>","big":12345678901234567890,"none":null,"yes":true}`)
	require.Equal(t, own, hash(`{"nsr": 7.24e-05, "list": [1, {"a": -5E-1, "b": []}, [2, 3]], "who": "\u00c4\u003cb>",
		"big": 12345678901234567890, "none": null, "yes": true}`))
	require.NotEqual(t, own, hash(`{"nsr":0.0000725,"list":[1,{"a":-0.5,"b":[]},[2,3]],"who":"Ä<b>","big":12345678901234567890,"none":null,`+
		`"yes":true}`))
	for _, plain := range []string{`{"a":[1,2.5,1e-7,1e+21],"b":{"c":"x","d":[{"e":1},{"f":-0}]}}`, `{}`, ``} {
		require.Equal(t, plain, string(canonical(json.RawMessage(plain))), "what Go wrote stays, and so do hashes of plans")
	}
}
