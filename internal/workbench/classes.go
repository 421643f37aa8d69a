package workbench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"qwb"
	"qwb/internal/plain"
)

// Classes are names of the classes that the model tells apart.
type Classes struct {
	File  string   `json:"file"`
	Names []string `json:"names"` // by class; an empty one is not known
	Note  string   `json:"note"`  // that they are not as many as the model has classes
}

const (
	maxClassBytes = 4 << 20
	maxClasses    = 1 << 16
)

// readClasses reads a file of names: a line for each class, or JSON: a list, an object of numbers and names, or one that holds such an
// object as id2label.
func (b *Bench) readClasses(file string) (*Classes, error) {
	text, err := b.read(file, maxClassBytes)
	if err != nil {
		return nil, fmt.Errorf("class names: %w", err)
	}
	names, err := parseClasses(text)
	if err != nil {
		return nil, qwb.Usagef("class names: %s: %v", file, err)
	}
	return &Classes{File: file, Names: names}, nil
}

func parseClasses(text []byte) (names []string, err error) {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("it is empty")
	case text[0] == '[':
		err = json.Unmarshal(text, &names)
	case text[0] == '{':
		var whole struct {
			Labels map[string]string `json:"id2label"`
		}
		by := map[string]string{}
		if err = json.Unmarshal(text, &whole); err == nil && whole.Labels != nil {
			by = whole.Labels
		} else {
			err = json.Unmarshal(text, &by)
		}
		for key, name := range by {
			i, bad := strconv.Atoi(key)
			if bad != nil || i < 0 || i >= maxClasses {
				return nil, fmt.Errorf("%q is no number of a class", key)
			}
			for len(names) <= i {
				names = append(names, "")
			}
			names[i] = name
		}
	default:
		names = strings.Split(string(text), "\n")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("neither a list of names nor an object of numbers and names: %w", err)
	case len(names) == 0:
		return nil, fmt.Errorf("it has no names")
	case len(names) > maxClasses:
		return nil, fmt.Errorf("%d names are more than %d", len(names), maxClasses)
	}
	for i := range names {
		names[i] = strings.ToValidUTF8(names[i], "\ufffd")
	}
	return names, nil
}

// useClasses takes the names of classes from a file; an empty name takes none.
func (b *Bench) useClasses(_ context.Context, p struct {
	File string `json:"file"`
}) (c *Classes, err error) {
	if p.File != "" {
		if c, err = b.readClasses(p.File); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	b.classes = c
	b.mu.Unlock()
	return b.classNames(), nil
}

// classNames are the names with what is to be said of their number.
func (b *Bench) classNames() *Classes {
	b.mu.Lock()
	c := b.classes
	b.mu.Unlock()
	if c == nil {
		return nil
	}
	known := *c
	o, end, err := b.open()
	if err != nil {
		return &known
	}
	defer end()
	if of := o.Classes(); of > 0 && of != len(c.Names) {
		known.Note = fmt.Sprintf("%s has %s, the model %d classes", c.File, plain.Count(len(c.Names), "name"), of)
		if of > len(c.Names) {
			known.Note += ": those without a name are shown by their number"
		} else {
			known.Note += ": the names may be those of another model"
		}
	}
	return &known
}
