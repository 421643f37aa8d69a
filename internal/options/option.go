// Package options says once, in a table for each command, what it can be told. Of the rows come the flags of the command line with their
// help, what the shell completes, the manual pages and the reference of docs/cli.md; the keys of a job of the page, its forms and the
// command line that does the same; and the keywords of the Python package. What must hold among several options stands beside the table,
// once for all of them.
//
// A row points to where its value goes, mostly a field of the options of package qwb: one more option is a field there and a row here.
//
// Unstable: it may change without notice.
package options

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"qwb"
	"qwb/internal/strictjson"
)

// Option is a row: something that a command can be told. On the command line it is the flag --NAME; in JSON and in Python NAME with _ for
// -.
type Option struct {
	Name  string
	Short string // -o
	// At is where the value goes: a *bool, *string, *int, *uint64, *float64, *[]string (the flag may be repeated), *List, *Commas, a **int or
	// **float64 (nil where nothing is given), or a Value.
	At any
	// Help is what --help says; what stands in `backquotes` names the value.
	Help string
	See  string // where more is said: a file of docs, with an anchor if it has one
	// Default is the value on the command line where none is given, of the type that At points to; nil: the zero value, as in jobs.
	Default any
	// For is what the option is for, where a command takes networks and language models.
	For Kind
	// Values are those that the shell completes and that a misspelt one is held against; nil: none are known. Files: the name of a file will
	// do too.
	Values func() []string
	Files  bool
	Signed bool // a whole number below 0 makes sense
	Reads  bool // a part of a run has it too, though jobs have not; see InPart
	Job    bool // jobs of the page have it too: nothing that starts programs, or writes where it likes
	Bare   bool // in jobs alone, and no flag of the command that does the same: what that takes as an argument, for one
	Field  *Field
}

// Kind is what an option of a command that takes several kinds of models is for.
type Kind uint8

const (
	Any Kind = iota
	Networks
	Checkpoints
)

// Command is a command's options.
type Command interface {
	// Table is bound to the fields of the command. What there is to choose from is in c.
	Table(c *qwb.Catalog) Table
}

// Table has a row for each option of a command.
type Table []Option

// Find returns the row of a name, nil if there is none.
func (t Table) Find(name string) *Option {
	if i := slices.IndexFunc(t, func(o Option) bool { return o.Name == name }); i >= 0 {
		return &t[i]
	}
	return nil
}

// Without leaves out the rows of some names: those of others that a command has in another way.
func (t Table) Without(names ...string) Table {
	return slices.DeleteFunc(slices.Clone(t), func(o Option) bool { return slices.Contains(names, o.Name) })
}

// Job has the rows that a job has.
func (t Table) Job() Table {
	return slices.DeleteFunc(slices.Clone(t), func(o Option) bool { return !o.Job && !o.Bare })
}

// Of leaves out the rows that are for another kind of models.
func (t Table) Of(kind Kind) Table {
	return slices.DeleteFunc(slices.Clone(t), func(o Option) bool { return kind != Any && o.For != Any && o.For != kind })
}

// Key is the name in JSON and in Python.
func (o *Option) Key() string { return strings.ReplaceAll(o.Name, "-", "_") }

// Check finishes what was read: numbers that must not be below 0, sizes of memory, how many threads. It is the same for all commands.
func (t Table) Check() error {
	for i := range t {
		var n int
		switch at := t[i].At.(type) {
		case Value:
			if err := at.Check(t[i].Name); err != nil {
				return err
			}
		case *int:
			n = *at
		case **int:
			if *at != nil {
				n = **at
			}
		}
		if n < 0 && !t[i].Signed {
			return qwb.Usagef("--%s %d: must be 0 or more", t[i].Name, n)
		}
	}
	return nil
}

// record is a pointer to a struct whose fields are those of the rows, so that what JSON holds is read and written there.
func (t Table) record() reflect.Value {
	fields := make([]reflect.StructField, len(t))
	for i := range t {
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: reflect.TypeOf(t[i].At),
			Tag: reflect.StructTag(fmt.Sprintf("json:%q", t[i].Key()))}
	}
	r := reflect.New(reflect.StructOf(fields))
	for i := range t {
		r.Elem().Field(i).Set(reflect.ValueOf(t[i].At))
	}
	return r
}

// Decode reads an object with the keys of rows, and checks it; what names it in errors. Unknown and repeated keys, null and wrong types are
// errors of whoever wrote it. A value that is not there stays as it is.
func (t Table) Decode(what string, src []byte) error {
	if len(src) == 0 {
		src = []byte("{}")
	}
	if err := strictjson.Decode(what, src, t.record().Interface()); err != nil {
		return qwb.UsageError{Err: err}
	}
	return t.Check()
}

// MarshalJSON writes the object that Decode reads, its keys in the order of the rows.
func (t Table) MarshalJSON() ([]byte, error) { return json.Marshal(t.record().Interface()) }

// Words are the flags of all values that are not zero, as a command line has them.
func (t Table) Words() (words []string) {
	for i := range t {
		if t[i].Bare {
			continue
		}
		v := reflect.ValueOf(t[i].At).Elem()
		if v.IsZero() {
			continue
		}
		flag := "--" + t[i].Name
		switch v = reflect.Indirect(v); x := v.Interface().(type) {
		case bool:
			words = append(words, flag)
		case Commas:
			words = append(words, flag, x.String())
		case float64:
			words = append(words, flag, strconv.FormatFloat(x, 'g', -1, 64))
		default:
			if v.Kind() != reflect.Slice {
				words = append(words, flag, fmt.Sprint(x))
				continue
			}
			for k := range v.Len() {
				words = append(words, flag, v.Index(k).String())
			}
		}
	}
	return words
}

// Table makes a table of its own a Command: that of a command with few options.
func (t Table) Table(*qwb.Catalog) Table { return t }
