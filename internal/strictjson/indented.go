package strictjson

import (
	"bytes"
	"encoding/json"
)

// Indented is v as JSON for people and other tools: two spaces for each level, a line feed at the end, and none of the escapes that only
// HTML needs.
func Indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
