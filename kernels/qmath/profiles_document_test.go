package qmath_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

// docs/profiles.md has one row per profile, in order, that says what the profile says of itself.
func TestDocumentProfiles(t *testing.T) {
	b, err := os.ReadFile("../../docs/profiles.md")
	require.NoError(t, err)
	text := string(b)
	_, arithmetic := rows(t, text, "profile")
	_, equality := rows(t, text, "name")
	profiles := qmath.Profiles()
	require.Len(t, arithmetic, len(profiles))
	require.Len(t, equality, len(profiles))
	for i, p := range profiles {
		epilogue := "integer"
		if p.Float() {
			epilogue = "float"
		}
		assert.Equal(t, cells(p.Name, p.Doc.Formula, p.Doc.Factor, p.Doc.Rounding, p.Doc.ZeroPoint, epilogue), arithmetic[i])
		assert.Equal(t, cells(p.Name, p.Doc.Exact, p.Doc.Differs), equality[i])
	}
}

// cells are strings as rows reads them out of a table.
func cells(all ...string) []string {
	for i, s := range all {
		all[i] = strings.Trim(s, "`")
	}
	return all
}

// The document's table of forms names every one.
func TestDocumentForms(t *testing.T) {
	b, err := os.ReadFile("../../docs/profiles.md")
	require.NoError(t, err)
	_, body := rows(t, string(b), "family")
	require.Len(t, body, int(qmath.PowerOfTwo)+1)
	for i, family := range []qmath.Family{qmath.TFLite, qmath.TVM, qmath.ORT, qmath.XNNPACK, qmath.PowerOfTwo, qmath.FloatFamily} {
		var names []string
		for _, p := range qmath.Profiles() {
			if p.Family == family {
				names = append(names, p.Name)
			}
		}
		assert.Contains(t, body[i][0], "("+strings.Join(names, ", ")+")")
	}
}
