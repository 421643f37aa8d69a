package certify

import (
	"reflect"

	"qwb/internal/strictjson"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
)

// Schema is the JSON Schema of certificates, and so of the predicate of a statement.
func Schema() ([]byte, error) {
	s := strictjson.Schema(reflect.TypeFor[Certificate](), plan.KnownSchema)
	keys, _ := s["properties"].(map[string]any)
	keys["format"] = map[string]any{"const": certificateFormat}
	keys["version"] = map[string]any{"const": certificateVersion}
	return decision.EncodeSchema("qwb certificate", "what a plan was measured to be (docs/certificate.md)", s)
}
