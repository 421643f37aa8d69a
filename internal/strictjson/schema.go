package strictjson

import (
	"reflect"
	"strings"
)

// Schema describes, as JSON Schema, what Decode takes for a type: the keys of structs and no others, of which those that are always written
// are required. known describes types, and by the names of their keys members, for which there is more to say; nil where there is not.
// Types that read themselves from text are strings; those that do so from JSON have to be known.
func Schema(t reflect.Type, known func(t reflect.Type, key string) map[string]any) map[string]any {
	return schema(t, "", known)
}

func schema(t reflect.Type, key string, known func(reflect.Type, string) map[string]any) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := known(t, key); s != nil {
		return s
	}
	switch {
	case leaf(t) && reflect.PointerTo(t).Implements(textLeaf):
		return map[string]any{"type": "string"}
	case leaf(t):
		panic("strictjson: the schema of " + t.String() + " is not known")
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schema(t.Elem(), "", known)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schema(t.Elem(), "", known)}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		members(t, func(f reflect.StructField, name string, optional bool) {
			properties[name] = schema(f.Type, name, known)
			if !optional {
				required = append(required, name)
			}
		})
		s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			s["required"] = required
		}
		return s
	}
	return map[string]any{"type": "integer"}
}

// members calls f for every key of a struct, those of embedded structs among them.
func members(t reflect.Type, f func(field reflect.StructField, name string, optional bool)) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			members(field.Type, f)
		case name != "" && name != "-":
			f(field, name, strings.Contains(options, "omit"))
		}
	}
}
