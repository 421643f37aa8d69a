package table

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Members calls f with each member of a JSON object, in order, those of one name too.
func Members(b []byte, f func(name string, v json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("no JSON object (%v, %w)", t, err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		if err := f(fmt.Sprint(t), v); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	return nil
}
