package cprogram

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed c/*.c
var pieces embed.FS

// files lists the pieces, in the order in which they build on each other.
var files = []string{"integer", "border", "scale", "wide", "linear", "elementwise", "pool", "softmax", "island", "npy"}

// piece is one piece of C: a function, a type, or several that belong together. It begins with a line
//
//	//! name PARAMETER... | dependency dependency:ARGUMENT...
//
// In its text $P is the argument for parameter P, @P the C type for which it stands, and @U the unsigned type as wide as X. A is
// the type of accumulators: nothing for 32 bits, wide_ for 64.
type piece struct {
	name   string
	params []string
	needs  []string
	text   string
}

// library reads all pieces.
func library() (map[string]*piece, error) {
	all := map[string]*piece{}
	for _, file := range files {
		text, err := pieces.ReadFile("c/" + file + ".c")
		if err != nil {
			return nil, err
		}
		for _, part := range strings.Split("\n"+string(text), "\n//! ")[1:] {
			head, body, _ := strings.Cut(part, "\n")
			left, right, _ := strings.Cut(head, "|")
			words := strings.Fields(left)
			all[words[0]] = &piece{name: words[0], params: words[1:], needs: strings.Fields(right), text: strings.TrimSpace(body) + "\n"}
		}
	}
	return all, nil
}

// nibbles makes a piece that reads weights of one that reads them from an array of integers of 4 bits, two in a byte.
var nibbles = strings.NewReplacer("w[first + k]", "nibble_$W(w, first + k)", "w[f + k]", "nibble_$W(w, f + k)", "w[g + k]",
	"nibble_$W(w, g + k)", "w[h + k]", "nibble_$W(w, h + k)", "w[i + k]", "nibble_$W(w, i + k)")

// kernels collects the pieces that a program needs, each once, what is needed before what needs it.
type kernels struct {
	library map[string]*piece
	have    map[string]bool
	text    strings.Builder
}

// need adds a piece for the given arguments.
func (k *kernels) need(name string, args ...string) error {
	if own := strings.Join(append([]string{name}, args...), "_"); len(args) > 0 && k.library[own] != nil {
		// these types have a text of their own
		name, args = own, nil
	}
	if len(args) == 0 && k.have[name] {
		return nil
	}
	p := k.library[name]
	if p == nil || len(p.params) != len(args) {
		return fmt.Errorf("no piece of C named %s takes %d arguments", name, len(args))
	}
	key := strings.Join(append([]string{name}, args...), " ")
	if k.have[key] {
		return nil
	}
	k.have[key] = true
	var replace []string
	text := p.text
	for i, param := range p.params {
		if param == "W" && (args[i] == "i4" || args[i] == "u4") {
			text = nibbles.Replace(text)
			if err := k.need("nibble_" + args[i]); err != nil {
				return err
			}
		}
		replace = append(replace, "$"+param, args[i], "@"+param, cTypes[args[i]])
		if param == "X" {
			replace = append(replace, "@U", cTypes[strings.Replace(args[i], "i", "u", 1)])
		}
	}
	fill := strings.NewReplacer(replace...)
	for _, need := range p.needs {
		words := strings.Split(fill.Replace(need), ":")
		if err := k.need(words[0], words[1:]...); err != nil {
			return err
		}
	}
	k.text.WriteString("\n" + fill.Replace(text))
	return nil
}

// cTypes are the C types of elements by the names that pieces and tensors have for them.
var cTypes = map[string]string{"u8": "uint8_t", "i8": "int8_t", "u16": "uint16_t", "i16": "int16_t", "u32": "uint32_t", "i32": "int32_t",
	"": "int32_t", "wide_": "int64_t", "i4": "uint8_t", "u4": "uint8_t", "u64": "uint64_t", "i64": "int64_t", "f32": "float",
	"bool": "uint8_t"}
