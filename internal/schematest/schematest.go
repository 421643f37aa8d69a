// Package schematest holds values against JSON Schemas in tests.
package schematest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"
)

// Valid reports whether a value is what a schema takes, as far as the schemas of qwb go; other keywords fail the test.
func Valid(t *testing.T, s map[string]any, v any) bool {
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
				is(Valid(t, want.(map[string]any), x))
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
					is(Valid(t, p.(map[string]any), x))
				}
			}
		case "additionalProperties":
			properties, _ := s["properties"].(map[string]any)
			for name, x := range object {
				if _, known := properties[name]; !known {
					more, takes := want.(map[string]any)
					is(takes && Valid(t, more, x))
				}
			}
		case "anyOf":
			one := false
			for _, x := range want.([]any) {
				one = one || Valid(t, x.(map[string]any), v)
			}
			is(one)
		default:
			t.Fatalf("the test does not know the keyword %q", key)
		}
	}
	return ok
}

// Mutants calls f with copies of a value in which one thing is wrong, and says what.
func Mutants(v any, f func(what string, mutant any)) {
	switch v := v.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more["unheard-of"] = 1.0
		f("unknown key", more)
		f("type", []any{1.0})
		for key := range v {
			Mutants(v[key], func(what string, m any) {
				c := maps.Clone(v)
				c[key] = m
				f(key+": "+what, c)
			})
		}
	case []any:
		for i := range v {
			Mutants(v[i], func(what string, m any) {
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
