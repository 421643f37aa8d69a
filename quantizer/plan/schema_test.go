package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
)

// valid reports whether a value is what a schema takes, as far as the schemas of qwb go; other keywords fail the test.
func valid(t *testing.T, s map[string]any, v any) bool {
	t.Helper()
	ok := true
	is := func(holds bool) { ok = ok && holds }
	for _, key := range slices.Sorted(maps.Keys(s)) {
		want := s[key]
		object, isObject := v.(map[string]any)
		list, isList := v.([]any)
		number, isNumber := v.(float64)
		text, isText := v.(string)
		switch key {
		case "$schema", "title", "description":
		case "type":
			_, isBool := v.(bool)
			is(map[any]bool{"object": isObject, "array": isList, "number": isNumber, "integer": isNumber && number == math.Trunc(number),
				"string": isText, "boolean": isBool}[want])
		case "const":
			is(fmt.Sprint(want) == fmt.Sprint(v))
		case "enum":
			is(isText && slices.Contains(want.([]any), v))
		case "pattern":
			is(!isText || regexp.MustCompile(want.(string)).MatchString(text))
		case "minLength":
			is(!isText || float64(len(text)) >= want.(float64))
		case "exclusiveMinimum":
			is(!isNumber || number > want.(float64))
		case "minimum":
			is(!isNumber || number >= want.(float64))
		case "minItems":
			is(!isList || float64(len(list)) >= want.(float64))
		case "maxItems":
			is(!isList || float64(len(list)) <= want.(float64))
		case "items":
			for _, x := range list {
				is(valid(t, want.(map[string]any), x))
			}
		case "minProperties":
			is(!isObject || float64(len(object)) >= want.(float64))
		case "required":
			for _, name := range want.([]any) {
				_, there := object[name.(string)]
				is(!isObject || there)
			}
		case "properties":
			for name, x := range object {
				if p, known := want.(map[string]any)[name]; known {
					is(valid(t, p.(map[string]any), x))
				}
			}
		case "additionalProperties":
			properties, _ := s["properties"].(map[string]any)
			for name, x := range object {
				if _, known := properties[name]; !known {
					more, takes := want.(map[string]any)
					is(takes && valid(t, more, x))
				}
			}
		case "anyOf":
			one := false
			for _, x := range want.([]any) {
				one = one || valid(t, x.(map[string]any), v)
			}
			is(one)
		default:
			t.Fatalf("the test does not know the keyword %q", key)
		}
	}
	return ok
}

// mutants calls f with copies of a value in which one thing is wrong, and says what.
func mutants(v any, f func(what string, mutant any)) {
	switch v := v.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more["unheard-of"] = 1.0
		f("unknown key", more)
		f("type", []any{1.0})
		for key := range v {
			mutants(v[key], func(what string, m any) {
				c := maps.Clone(v)
				c[key] = m
				f(key+": "+what, c)
			})
		}
	case []any:
		for i := range v {
			mutants(v[i], func(what string, m any) {
				c := slices.Clone(v)
				c[i] = m
				f(what, c)
			})
		}
		f("type", map[string]any{"a": 1.0})
	case string:
		f("type", 0.5)
		f("type", true)
	case float64:
		f("type", "text")
		f("type", nil)
	case bool:
		f("type", 1.0)
	}
}

// The schema takes what Parse takes, and refuses every wrong type and unknown key that Parse refuses.
func TestSchema(t *testing.T) {
	text, err := plan.Schema()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	seen, tried := 0, 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(src, &doc))
		if _, err := plan.Parse(file, src); err != nil || doc["version"] != float64(plan.Version) {
			continue
		}
		seen++
		doc["decisions"] = append(doc["decisions"].([]any),
			map[string]any{"by": "tune", "method": "bias", "params": map[string]any{"budget": "1 forwards"}, "evidence": map[string]any{"a": 1.0},
				"overlay": "sha256:0123456789", "after": "x"},
			map[string]any{"by": "user", "select": []any{"a", "b"}, "weights": "int4-sym-g32", "scale": []any{1.0, 2.0}, "zero_point": 0.0,
				"align": "large", "divisor": 3.0, "freeze": true},
			map[string]any{"by": "user", "unset": []any{1.0}})
		require.True(t, valid(t, schema, doc), file)
		mutants(doc, func(what string, m any) {
			b, err := json.Marshal(m)
			require.NoError(t, err)
			if tried++; valid(t, schema, m) {
				_, err := plan.Parse(file, b)
				if err != nil {
					require.NotContains(t, err.Error(), "unknown key", what)
					require.NotContains(t, err.Error(), "is wanted", what)
				}
			}
		})
	}
	require.Positive(t, seen)
	require.Greater(t, tried, 100)
}

// The same for recipes: what the schema takes is refused for what it means only.
func TestRecipeSchema(t *testing.T) {
	text, err := decision.RecipeSchema()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	doc := []any{
		map[string]any{"select": "type:Softmax", "domain": "fp32", "optional": true},
		map[string]any{"select": []any{"first", "last"}, "activations": "int16-sym-tensor", "weights": "int8-sym-channel", "align": "output",
			"goal": "why"},
		map[string]any{"observer": "percentile(0.999)", "per_tensor": true, "reduce_range": false, "dispatcher": "conservative",
			"border_cost": 2.0},
		map[string]any{"select": "a:in0", "scale": 0.5, "zero_point": 3.0, "freeze": true},
		map[string]any{"select": "a:in0", "scale": []any{0.5, 2.0}, "observer": "onnxruntime/entropy", "divisor": 127.0},
		map[string]any{"tune": map[string]any{"method": []any{"bias"}, "budget": "1forwards", "samples": 3.0, "force": true, "profile": "ort"}},
		map[string]any{"gate": map[string]any{"max_nsr": 1.0, "min_cosine": 0.5, "max_drop": 1.0, "data": "d", "labels": "l", "samples": 2.0,
			"strict": true}},
	}
	parse := func(v any) error {
		b, err := json.Marshal(v) // JSON is YAML
		require.NoError(t, err)
		_, err = decision.ParseRecipe("r.yaml", b)
		return err
	}
	require.NoError(t, parse(doc))
	require.True(t, valid(t, schema, doc))
	properties := map[string]bool{}
	for _, step := range doc {
		for key := range step.(map[string]any) {
			properties[key] = true
		}
	}
	for _, p := range decision.All() {
		require.True(t, properties[p.Name], "the test has no %s", p.Name)
	}
	refused := 0
	mutants(doc, func(what string, m any) {
		err := parse(m)
		switch takes := valid(t, schema, m); {
		case !takes:
			refused++
		case err != nil:
			require.NotContains(t, err.Error(), "unknown key", what)
			require.NotContains(t, err.Error(), "is wanted", what)
		}
	})
	require.Greater(t, refused, 30)
	for _, bad := range []string{`[{"domain": "fp3", "select": "a"}]`, `[{"tune": {"method": "bias"}, "select": "a"}]`, `[{}]`,
		`[{"unset": [1]}]`, `[{"select": "", "domain": "fp32"}]`, `{}`} {
		var v any
		require.NoError(t, json.Unmarshal([]byte(bad), &v))
		require.False(t, valid(t, schema, v), bad)
		require.Error(t, parse(v), bad)
	}
}
