package decision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Scales are float32 scales. In the file they are one number, or a list; each is the shortest decimal that reads back as the
// same float32.
type Scales []float32

// ZeroPoints belong to Scales. In the file they are one number where all are equal, else a list.
type ZeroPoints []int32

func (s Scales) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return json.Marshal(s[0])
	}
	return json.Marshal([]float32(s))
}

func (s *Scales) UnmarshalJSON(b []byte) error {
	list, err := oneOrMany(b, func(text string) (float32, error) {
		f, err := strconv.ParseFloat(text, 32)
		return float32(f), err
	})
	*s = list
	return err
}

func (z ZeroPoints) MarshalJSON() ([]byte, error) {
	for _, v := range z {
		if v != z[0] {
			return json.Marshal([]int32(z))
		}
	}
	if len(z) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(z[0])
}

func (z *ZeroPoints) UnmarshalJSON(b []byte) error {
	list, err := oneOrMany(b, func(text string) (int32, error) {
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err
	})
	*z = list
	return err
}

// oneOrMany reads a number or a list of numbers.
func oneOrMany[T any](b []byte, parse func(string) (T, error)) ([]T, error) {
	var texts []json.Number
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &texts); err != nil {
			return nil, err
		}
	} else {
		var one json.Number
		if err := json.Unmarshal(b, &one); err != nil {
			return nil, fmt.Errorf("a number is wanted, not %s", b)
		}
		texts = []json.Number{one}
	}
	list := make([]T, len(texts))
	for i, t := range texts {
		v, err := parse(string(t))
		if err != nil {
			var reason *strconv.NumError
			if errors.As(err, &reason) {
				err = reason.Err
			}
			return nil, fmt.Errorf("number %q: %w", string(t), err)
		}
		list[i] = v
	}
	return list, nil
}
