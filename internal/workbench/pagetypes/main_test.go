package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypesAreUpToDate: go generate ./reports/page writes them.
func TestTypesAreUpToDate(t *testing.T) {
	var b strings.Builder
	write(&b)
	text, err := os.ReadFile("../../../reports/page/types.d.ts")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "go generate ./reports/page")
}

type inner struct {
	A int `json:"a"`
	B int `json:"b,omitempty"`
}

type outer struct {
	*inner
	A      string             `json:"a"`
	List   []inner            `json:"list"`
	Maybe  *float64           `json:"maybe"`
	By     map[string][]inner `json:"by"`
	Raw    json.RawMessage    `json:"raw"`
	Hidden int                `json:"-"`
	own    int
}

// TestTypesAreThoseOfJSON: embedded fields stand among the others, less deep ones hide deeper ones, and what may be absent says so.
func TestTypesAreThoseOfJSON(t *testing.T) {
	require.Zero(t, outer{}.own) // a field that JSON does not have
	n := names{of: map[reflect.Type]string{}, text: map[string]string{}}
	require.Equal(t, "Outer", n.typeOf(reflect.TypeFor[outer]()))
	require.Equal(t, "    b?: number;\n    a: string;\n    list: Inner[];\n    maybe: number | null;\n    by: Record<string, Inner[]>;\n"+
		"    raw: any;\n", n.text["Outer"])
	require.Equal(t, "    a: number;\n    b?: number;\n", n.text["Inner"])
}
