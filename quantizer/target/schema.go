package target

import (
	"reflect"

	"qwb/internal/strictjson"
)

// Schema describes the file of a target as JSON Schema, without title and dialect: the keys that Parse takes, and the words of those that
// have a closed list. What it takes Parse takes, but for what the parts of a file say about each other.
func Schema() map[string]any {
	s := strictjson.Schema(reflect.TypeFor[file](), func(t reflect.Type, key string) map[string]any {
		switch {
		case t == reflect.TypeFor[Placement]():
			return words(placementNames)
		case t == reflect.TypeFor[FloatUnit]():
			return words(floatNames)
		case t == reflect.TypeFor[Role]():
			return words(roleNames)
		case t == reflect.TypeFor[Align]():
			return words(alignNames)
		case key == "family":
			return words(familyNames())
		case t == reflect.TypeFor[fileNumbers](), t == reflect.TypeFor[fileExport](), t == reflect.TypeFor[fileOperator]():
			return optional(strictjson.Schema(t, func(inner reflect.Type, key string) map[string]any {
				switch inner {
				case reflect.TypeFor[Role]():
					return words(roleNames)
				case reflect.TypeFor[Align]():
					return words(alignNames)
				}
				return nil
			}), "type", "operators", "rounding")
		}
		return nil
	})
	return optional(s, "name", "activation", "weight", "operators")
}

// optional is a schema of an object in which only some keys have to stand: those of names that it requires.
func optional(s map[string]any, names ...string) map[string]any {
	properties, _ := s["properties"].(map[string]any)
	delete(s, "required")
	var required []string
	for _, name := range names {
		if _, there := properties[name]; there {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func words(list []string) map[string]any { return map[string]any{"type": "string", "enum": list} }
