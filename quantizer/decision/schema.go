package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"qwb/internal/strictjson"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// SchemaVersion is the dialect of the JSON Schemas that qwb writes.
const SchemaVersion = "https://json-schema.org/draft/2020-12/schema"

// keyDocs say what the keys of decisions and steps are that are no properties.
var keyDocs = map[string]string{
	"by":     "who made the decision",
	"goal":   "what it is for: what a search was asked for",
	"method": "auto, or names of methods of tuning",
	"params": "arguments of tuning",
	"select": "operators or tensors: conv1, type:Softmax, /regular expression/, conv1:in0, first, last, depthwise, *; without it a " +
		"default for the whole plan",
	"overlay":    "the file with the values that tuning changed",
	"statistics": "the file with what was observed of tensors that tuning changed",
	"unset":      "numbers of earlier decisions that are taken back",
	"evidence":   "what the decision was made on",
	"after":      "hash of what was in force before it",
	"optional":   "leave the step out for a model in which the selector matches nothing",
	"tune":       "tune the plan on samples of its data",
	"gate":       "measure the plan and fail if a limit is missed",
	"budget":     "limit as work: 5000forwards",
	"samples":    "how many samples; 0 or absent: the default",
	"force":      "keep what held-out samples do not confirm",
	"allow_fp32": "also try rewriting steps that move work to FP32",
	"max_work":   "how many percent more multiply-accumulates than the model the tuned network may have; absent: 5",
	"max_bytes":  "how many percent more bytes of constants than the model the tuned network may have; absent: 5",
	"profile":    "arithmetic profile to reduce the error for",
	"max_nsr":    "largest noise-to-signal ratio (NSR) at the outputs",
	"min_cosine": "smallest cosine similarity at the outputs",
	"max_drop":   "largest drop of top-1 accuracy, in percentage points; needs data and labels",
	"data":       "files and folders of samples, relative to the recipe",
	"labels":     "labels of the samples, relative to the recipe",
	"strict":     "also fail where the limit is exceeded by less than the error of the measurement",
}

// KnownSchema describes the types and keys of decisions; see strictjson.Schema.
func KnownSchema(t reflect.Type, key string) map[string]any {
	s := knownType(t)
	if s == nil && key == "align" {
		s = enum([]target.Align{target.AlignNone, target.AlignOutput, target.AlignInput, target.AlignLarge})
	}
	doc := keyDocs[key]
	if i := row(key); i >= 0 {
		doc = properties[i].Doc
	}
	if doc != "" && s == nil {
		s = strictjson.Schema(t, func(inner reflect.Type, key string) map[string]any {
			if inner == t && key == "" {
				return nil
			}
			return KnownSchema(inner, key)
		})
	}
	if s != nil && doc != "" {
		s["description"] = doc
	}
	return s
}

func enum[T any](list []T) map[string]any {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = fmt.Sprint(v)
	}
	return map[string]any{"type": "string", "enum": words}
}

// oneOrMore is a value or a list of such.
func oneOrMore(one map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one, "minItems": 1}}}
}

func knownType(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": "object"}
	case reflect.TypeFor[By]():
		return enum(Everyone)
	case reflect.TypeFor[Domain]():
		return enum(Domains)
	case reflect.TypeFor[Select](), reflect.TypeFor[Words]():
		return oneOrMore(map[string]any{"type": "string", "minLength": 1})
	case reflect.TypeFor[Scales]():
		return oneOrMore(map[string]any{"type": "number", "exclusiveMinimum": 0})
	case reflect.TypeFor[ZeroPoints]():
		return oneOrMore(map[string]any{"type": "integer"})
	case reflect.TypeFor[tqc.Scheme]():
		return map[string]any{"type": "string", "pattern": "^[a-z0-9]+-(sym|asym)-[a-z0-9-]+$"}
	case reflect.TypeFor[tqc.Observer]():
		names := []string{string(tqc.ObserverAuto)}
		for _, o := range tqc.Observers {
			names = append(names, string(o))
		}
		return map[string]any{"anyOf": []any{map[string]any{"enum": names},
			map[string]any{"type": "string", "pattern": `^[a-z0-9/_-]+(\([0-9.e+-]+\))?$`}}}
	}
	return nil
}

// RecipeSchema is the JSON Schema of recipes, for editors. What it takes ParseRecipe takes, but for values that hang on each other.
func RecipeSchema() ([]byte, error) {
	whole := strictjson.Schema(reflect.TypeFor[step](), KnownSchema)
	all, _ := whole["properties"].(map[string]any)
	decides := maps.Clone(all)
	for _, key := range []string{"tune", "gate", "method", "params", "overlay", "statistics", "unset"} {
		delete(decides, key)
	}
	alone := func(key string) map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{key: all[key]}, "required": []string{key},
			"additionalProperties": false}
	}
	return EncodeSchema("qwb recipe", "steps that make a plan: decisions, tuning, gates (docs/recipes.md)", map[string]any{
		"type": "array",
		"items": map[string]any{"anyOf": []any{
			map[string]any{"type": "object", "title": "decision", "properties": decides, "additionalProperties": false, "minProperties": 1},
			alone("tune"), alone("gate"),
		}},
	})
}

// EncodeSchema writes a schema with a title; equal schemas give equal bytes.
func EncodeSchema(title, doc string, s map[string]any) ([]byte, error) {
	s["$schema"], s["title"], s["description"] = SchemaVersion, title, doc
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return append(b, '\n'), nil
}
