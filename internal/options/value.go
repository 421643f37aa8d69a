package options

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"qwb"
)

// Value is what an option holds that is more than a value of Go: it keeps the text, and Check makes of it what is wanted.
type Value interface {
	String() string
	Set(text string) error
	Type() string // in help
	Check(name string) error
}

// List are texts with commas between; the flag may be repeated too.
type List []string

// Commas are texts with commas between, in one text.
type Commas []string

func (c Commas) String() string         { return strings.Join(c, ",") }
func (c *Commas) Set(text string) error { return c.UnmarshalText([]byte(text)) }
func (c *Commas) Type() string          { return "string" }
func (c *Commas) Check(string) error    { return nil }

// MarshalText writes the text.
func (c Commas) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads it; an empty one is none.
func (c *Commas) UnmarshalText(text []byte) error {
	if *c = nil; len(text) > 0 {
		*c = strings.Split(string(text), ",")
	}
	return nil
}

// threads is how many threads work; 0 becomes one for each core. The same number goes to several places.
type threads struct {
	n  int
	at []*int
}

func (t *threads) String() string { return strconv.Itoa(t.n) }
func (t *threads) Type() string   { return "int" }

func (t *threads) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 64)
	t.n = int(n)
	return err
}

func (t *threads) Check(name string) error {
	n := t.n
	switch {
	case n < 0:
		return qwb.Usagef("--%s %d: must be 0 or more", name, n)
	case n == 0:
		n = runtime.GOMAXPROCS(0)
	}
	for _, at := range t.at {
		*at = n
	}
	return nil
}

// memory is a size such as 512M, in bytes; without one its place stays as it is.
type memory struct {
	text  string
	at    *int64
	given bool
}

func (m *memory) String() string { return m.text }
func (m *memory) Type() string   { return "string" }

func (m *memory) Set(text string) error {
	if text != "" { // no size is the usual one
		m.text, m.given = text, true
	}
	return nil
}

// Memory is what a command may take where its options say it, 0 where they do not. They have been checked.
func (t Table) Memory() int64 {
	for i := range t {
		if m, ok := t[i].At.(*memory); ok && m.given {
			return *m.at
		}
	}
	return 0
}

func (m *memory) Check(name string) error {
	s := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(m.text), "B"), "I")
	if s == "" {
		return nil
	}
	shift := strings.IndexByte("KMGT", s[len(s)-1])
	if shift >= 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseFloat(s, 64)
	bytes := n * float64(int64(1)<<(10*(shift+1)))
	if err != nil || !(bytes >= 1<<20) || bytes > 1<<50 {
		return qwb.UsageError{Err: fmt.Errorf("--%s %q: not a size; give for example 512M or 4G, at least 1M", name, m.text)}
	}
	*m.at = int64(bytes)
	return nil
}

// Cut is a part of a run: which one, and the file that it is written to. The zero value is no part.
type Cut struct {
	Shard qwb.Shard
	File  string
}

// Part is the part of a run that the options say. They have been checked.
func (t Table) Part() (cut Cut) {
	if f := t.Find(partName); f != nil {
		cut = Cut{*t.Find(shardName).At.(*shard).at, *f.At.(*string)}
	}
	return cut
}

// HasParts reports whether qwb merge puts runs of the command together.
func (t Table) HasParts() bool { return t.Find(partName) != nil }

// InPart reports whether the part of a run takes the option: not where it starts programs, or writes a file, which the merge does.
func (o *Option) InPart() bool {
	return o.Job || slices.Contains([]string{"slices", "backend", "tokenizer"}, o.Name) || o.Reads
}

// Anyhow reports whether the option leaves the result as it is, so that each part may have another one.
func (o *Option) Anyhow() bool {
	return slices.Contains([]string{"threads", "mem", "json", shardName, partName}, o.Name)
}

// shard is a part of the data.
type shard struct {
	text string
	at   *qwb.Shard
}

func (s *shard) String() string        { return s.text }
func (s *shard) Type() string          { return "string" }
func (s *shard) Set(text string) error { s.text = text; return nil }

func (s *shard) Check(string) (err error) {
	*s.at, err = qwb.ParseShard(s.text)
	return err
}
