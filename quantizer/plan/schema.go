package plan

import (
	"reflect"

	"qwb/internal/strictjson"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Schema is the JSON Schema of plans of this version, for editors. What it takes Parse takes, but for what the parts of a plan say about
// each other.
func Schema() ([]byte, error) {
	s := strictjson.Schema(reflect.TypeFor[document](), KnownSchema)
	keys, _ := s["properties"].(map[string]any)
	keys["format"] = map[string]any{"const": Format}
	keys["version"] = map[string]any{"const": Version}
	return decision.EncodeSchema("qwb plan", "inputs, decisions and what follows from them (docs/plan-file.md)", s)
}

// PreprocessSchema is the JSON Schema of a file that describes preprocessing.
func PreprocessSchema() ([]byte, error) {
	s := strictjson.Schema(reflect.TypeFor[Preprocess](), KnownSchema)
	keys, _ := s["properties"].(map[string]any)
	for _, own := range []string{"tokenizer", "states", "mask"} { // a plan has them, a file does not
		delete(keys, own)
	}
	return decision.EncodeSchema("qwb preprocessing", "how a picture becomes an input of a model (docs/data.md)", s)
}

// KnownSchema describes the types and keys of plans; see strictjson.Schema.
func KnownSchema(t reflect.Type, key string) map[string]any {
	number := map[string]any{"type": "number"}
	switch t {
	case reflect.TypeFor[Size]():
		side := map[string]any{"type": "integer", "minimum": 1}
		return map[string]any{"anyOf": []any{side, map[string]any{"type": "array", "items": side, "minItems": 2, "maxItems": 2}}}
	case reflect.TypeFor[Channels]():
		return map[string]any{"anyOf": []any{number, map[string]any{"type": "array", "items": number}}}
	case reflect.TypeFor[tqc.Domain]():
		return names(tqc.DomainWeights)
	case reflect.TypeFor[tqc.State]():
		return names(tqc.FP32)
	case reflect.TypeFor[decision.Decision]():
		return strictjson.Schema(t, decision.KnownSchema)
	case reflect.TypeFor[decision.Select](), reflect.TypeFor[decision.Scales](), reflect.TypeFor[decision.ZeroPoints](),
		reflect.TypeFor[tqc.Observer]():
		return decision.KnownSchema(t, "")
	}
	return nil
}

// names lists the names of values from 0 to the last one.
func names[T interface {
	~uint8
	String() string
}](last T) map[string]any {
	var list []string
	for v := T(0); v <= last; v++ {
		list = append(list, v.String())
	}
	return map[string]any{"type": "string", "enum": list}
}
