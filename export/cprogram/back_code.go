package cprogram

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"qwb/quantizer/lower"
)

// The forms in which the code declares structures and functions, calls the latter, and begins a structure's values.
var (
	structText   = regexp.MustCompile(`(?m)^struct (\w+) \{\n((?:    .*\n)+)\};`)
	fieldText    = regexp.MustCompile(`^    (?:const )?(?:struct )?(\w+) ([^;(]+);`)
	functionText = regexp.MustCompile(`(?m)^static \w+ (\w+)\(([^{;]*)\) \{$`)
	callText     = regexp.MustCompile(`(?m)^ +(\w+)\((.*)\);$`)
	valuesText   = regexp.MustCompile(`const struct (\w+) (\w+)(\[\])? = \{`)
	nextText     = regexp.MustCompile(`^, (\w+)(\[\])? = \{`)
)

// field is one of a structure: of pointers Type is empty.
type field struct{ Name, Type string }

// code is what the text of a file says of its structures and functions.
type code struct {
	structs map[string][]field
	params  map[string][]string // of functions
}

func codeOf(text string) *code {
	c := &code{map[string][]field{}, map[string][]string{}}
	for _, m := range structText.FindAllStringSubmatch(text, -1) {
		for _, line := range strings.Split(m[2], "\n") {
			of := fieldText.FindStringSubmatch(line)
			if of == nil {
				continue
			}
			for _, name := range strings.Split(of[2], ", ") {
				f := field{name, of[1]}
				if f.Name, _, _ = strings.Cut(name, "["); strings.Contains(name, "*") {
					f.Type = ""
				}
				c.structs[m[1]] = append(c.structs[m[1]], f)
			}
		}
	}
	for _, m := range functionText.FindAllStringSubmatch(text, -1) {
		for _, p := range strings.Split(m[2], ",") {
			p = strings.TrimSpace(p)
			c.params[m[1]] = append(c.params[m[1]], strings.TrimLeft(p[strings.LastIndexByte(p, ' ')+1:], "*"))
		}
	}
	return c
}

// numbers are those of the values of structures in the block of a step, by variable and field ("how.m.shift"), and of the arguments of its
// calls by the names of parameters ("zx"), of the first call that has it.
func (c *code) numbers(block string) map[string]string {
	found := map[string]string{}
	for _, at := range valuesText.FindAllStringSubmatchIndex(block, -1) {
		of, name, rest := block[at[2]:at[3]], block[at[4]:at[5]], block[at[1]-1:]
		several := at[6] >= 0
		for {
			v, n := valueOf(rest)
			if several {
				for i, x := range v.list {
					c.name(found, fmt.Sprintf("%s[%d]", name, i), of, x)
				}
			} else {
				c.name(found, name, of, v)
			}
			rest = rest[n:]
			m := nextText.FindStringSubmatch(rest)
			if m == nil {
				break
			}
			name, several, rest = m[1], m[2] != "", rest[len(m[0])-1:]
		}
	}
	for _, m := range callText.FindAllStringSubmatch(block, -1) {
		params := c.params[m[1]]
		for i, w := range strings.Split(m[2], ", ") {
			if i < len(params) && found[params[i]] == "" {
				found[params[i]] = normal(w)
			}
		}
	}
	return found
}

// braced is a number, or a list in braces.
type braced struct {
	text string
	list []braced
}

// valueOf reads the value that a text begins with, and says how long it is.
func valueOf(text string) (v braced, n int) {
	if !strings.HasPrefix(text, "{") {
		n = strings.IndexAny(text, ",}")
		if n < 0 {
			n = len(text)
		}
		return braced{text: text[:n]}, n
	}
	for n = 1; n < len(text) && text[n] != '}'; {
		if text[n] == ',' || text[n] == ' ' {
			n++
			continue
		}
		x, k := valueOf(text[n:])
		v.list, n = append(v.list, x), n+k
	}
	return v, min(n+1, len(text))
}

// name puts the numbers of a value of a structure under their names.
func (c *code) name(found map[string]string, name, of string, v braced) {
	for i, f := range c.structs[of] {
		switch {
		case i >= len(v.list) || f.Type == "":
		case c.structs[f.Type] != nil:
			c.name(found, name+"."+f.Name, f.Type, v.list[i])
		default:
			found[name+"."+f.Name] = v.list[i].String()
		}
	}
}

func (v braced) String() string {
	if v.list == nil {
		return normal(v.text)
	}
	list := make([]string, len(v.list))
	for i, x := range v.list {
		list[i] = x.String()
	}
	return fmt.Sprint(list)
}

// normal is a constant of C in the one form that both sides of a comparison have: see said.
func normal(w string) string {
	if n, err := whole(w); err == nil {
		return said(n)
	}
	if x, err := number(w); err == nil {
		return said(float32(x))
	}
	return w
}

// said is a number in words: of float32 all its bits.
func said(x any) string {
	if f, ok := x.(float32); ok {
		return strconv.FormatFloat(float64(f), 'x', -1, 32) + "f"
	}
	return fmt.Sprint(x)
}

// blocks are the parts of a text that belong to steps.
func blocks(text string, see func(id lower.StepID, block string)) {
	for _, at := range stepText.FindAllStringSubmatchIndex(text, -1) {
		id, _ := strconv.Atoi(text[at[2]:at[3]]) // digits
		from := strings.LastIndex(text[:at[0]], fmt.Sprintf("    /* step %d: ", id))
		see(lower.StepID(id), text[max(from, 0):at[0]])
	}
}
