// Package strictjson decodes JSON into structs and refuses what encoding/json lets pass.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode decodes src into v, a pointer, and refuses what encoding/json lets pass: unknown keys, keys in other case, repeated keys,
// null, and anything behind the value. Errors say file:line.
func Decode(file string, src []byte, v any) error {
	w := &walker{file: file, src: src, dec: json.NewDecoder(bytes.NewReader(src))}
	if err := w.walk(reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if _, err := w.dec.Token(); err != io.EOF {
		return w.errorf("something follows the end")
	}
	if err := json.Unmarshal(src, v); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			key := t.Field[strings.LastIndexByte(t.Field, '.')+1:]
			return fmt.Errorf("%s:%d: %s: %s is wanted, not %s", file, line(src, t.Offset), key, wanted(t.Type.Kind()), article(t.Value))
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// wanted names a kind of value to people.
func wanted(k reflect.Kind) string {
	if k == reflect.Float64 || k == reflect.Float32 {
		return "a number"
	}
	return article(k.String())
}

// article puts "a" or "an" before a word.
func article(word string) string {
	if strings.ContainsRune("aeio", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

type walker struct {
	file string
	src  []byte
	dec  *json.Decoder
}

func (w *walker) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", w.file, line(w.src, w.dec.InputOffset()), fmt.Sprintf(format, args...))
}

// line returns the line, counted from 1, on which a byte stands.
func line(src []byte, offset int64) int {
	return 1 + bytes.Count(src[:min(max(offset, 0), int64(len(src)))], []byte("\n"))
}

func (w *walker) token() (json.Token, error) {
	t, err := w.dec.Token()
	switch {
	case err != nil:
		return nil, w.decodeError(err)
	case t == nil:
		return nil, w.errorf("null")
	}
	return t, nil
}

func (w *walker) decodeError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: %w", w.file, line(w.src, syntax.Offset), err)
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return w.errorf("the file ends too early")
	}
	return w.errorf("%v", err)
}

// walk checks the next value against the type that it will be decoded into.
func (w *walker) walk(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && leaf(t) {
		return w.leaf(t)
	}
	tok, err := w.token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('{'):
		return w.object(t)
	case json.Delim('['):
		for w.dec.More() {
			if err := w.walk(element(t)); err != nil {
				return err
			}
		}
		_, err = w.token()
		return err
	}
	return nil
}

// leaf lets a type that reads itself do so, for the line of its error.
func (w *walker) leaf(t reflect.Type) error {
	var raw json.RawMessage
	if err := w.dec.Decode(&raw); err != nil {
		return w.decodeError(err)
	}
	if string(raw) == "null" {
		return w.errorf("null")
	}
	if err := json.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
		return w.errorf("%v", err)
	}
	return nil
}

func (w *walker) object(t reflect.Type) error {
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if seen[key] {
			return w.errorf("key %q is repeated", key)
		}
		seen[key] = true
		inner, known := member(t, key)
		if !known {
			return w.errorf("unknown key %q", key)
		}
		if err := w.walk(inner); err != nil {
			return err
		}
	}
	_, err := w.token()
	return err
}

var (
	jsonLeaf = reflect.TypeFor[json.Unmarshaler]()
	textLeaf = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// leaf reports whether a type reads itself: what is inside is its own business.
func leaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(jsonLeaf) || reflect.PointerTo(t).Implements(textLeaf)
}

func element(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
		return nil
	}
	return t.Elem()
}

// member returns the type behind a key of an object, and whether there is such a key.
func member(t reflect.Type, key string) (reflect.Type, bool) {
	switch {
	case t == nil:
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), true
	case t.Kind() != reflect.Struct:
		return nil, true // the decoder will say that the type is wrong
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if inner, ok := member(f.Type, key); ok {
				return inner, true
			}
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f.Type, true
		}
	}
	return nil, false
}
