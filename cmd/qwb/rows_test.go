package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
)

// TestOperators: every operator stands in the text once, with the same marks as in JSON.
func TestOperators(t *testing.T) {
	var list []qwb.OperatorInfo
	require.NoError(t, json.Unmarshal([]byte(done(t, "operators", "--json").stdout), &list))
	text := strings.Split(strings.TrimSpace(done(t, "operators").stdout), "\n")
	columns := strings.Fields(strings.TrimSuffix(text[0], "operators of ONNX"))
	require.Contains(t, columns, "cpu")
	for _, o := range list {
		found := 0
		for _, line := range text[1:] {
			words := strings.Fields(line)
			if words[0] != o.Step || o.Op != "" && !strings.Contains(" "+strings.Join(words[len(columns):], " ")+" ", " "+o.Op+" ") {
				continue
			}
			found++
			for k, name := range columns[1 : len(columns)-1] {
				require.Equal(t, has(&o, name), words[k+1], "%s %s: %s", o.Step, o.Op, name)
			}
		}
		require.Equal(t, 1, found, o.Op)
	}
}
