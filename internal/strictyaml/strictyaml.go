// Package strictyaml is the one place where YAML is read. A file may come from anybody, and the parser's time and memory grow with the
// square of how deep things lie in each other and of how many keys a mapping has, and without bound with aliases: what is too much of these
// is refused before it is parsed, so that the time that any file takes grows with its length.
package strictyaml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of every file.
const (
	maxMarks = 1 << 18 // characters that may begin something: what the lexer makes of one takes 500 times as much memory
	maxDepth = 64      // of lists and mappings in each other
	maxNodes = 1 << 18 // values, with what aliases stand for
)

// Limits bound what differs by kind of file.
type Limits struct {
	What  string // the file is: "a recipe"
	Bytes int    // of the file
	Keys  int    // of one mapping that is written in lines; 0: 1024
	// Own is a file that qwb has just written: it has no bounds, and a key may stand twice in a mapping.
	Own bool
}

// Error says where a file has too much of something.
type Error struct {
	Line int // 0: the whole
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("[%d:1] %s", e.Line, e.Text)
}

// Parse reads a file. Errors are of the parser (Line, OneLine) or *Error.
func Parse(src []byte, l Limits) (f *ast.File, err error) {
	defer recovered(&err)
	if l.Own {
		return parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	}
	if len(src) > l.Bytes {
		return nil, &Error{0, fmt.Sprintf("%d bytes are too many for %s (%d)", len(src), l.What, l.Bytes)}
	}
	marks := 0
	for i := range src {
		if strings.IndexByte("-:,[]{}&*!\"'?|>\n", src[i]) >= 0 {
			marks++
		}
	}
	if marks > maxMarks {
		return nil, &Error{0, fmt.Sprintf("%d lines, brackets, commas and colons are too many for %s (%d)", marks, l.What, maxMarks)}
	}
	tokens := lexer.Tokenize(string(src))
	if l.Keys == 0 {
		l.Keys = 1024
	}
	if err := look(tokens, l); err != nil {
		return nil, err
	}
	if f, err = parser.Parse(tokens, 0); err != nil {
		return nil, err
	}
	sizes := map[string]int{}
	for _, doc := range f.Docs {
		if doc.Body != nil && size(doc.Body, sizes) > maxNodes {
			return nil, &Error{0, fmt.Sprintf("aliases make it larger than %s may be: more than %d values", l.What, maxNodes)}
		}
	}
	return f, nil
}

// Decode reads a file into a struct whose fields are its keys: one that does not exist, or stands there twice, is an error that names its
// line.
func Decode(src []byte, into any, l Limits) (err error) {
	defer recovered(&err)
	if l.Own {
		return yaml.UnmarshalWithOptions(src, into, yaml.AllowDuplicateMapKey())
	}
	if _, err := Parse(src, l); err != nil {
		return err
	}
	return yaml.UnmarshalWithOptions(src, into, yaml.Strict())
}

// recovered turns a panic of the parser (v1.19 has them on some tagged scalars) into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("not readable as YAML: %v", r)
	}
}

// block is a list or mapping that is written in lines, by the column that its entries begin in.
type block struct {
	column, keys int
	list         bool
}

// look refuses what lies too deep or has too many keys.
func look(tokens token.Tokens, l Limits) error {
	var blocks []block
	flow, documents := 0, 0
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.DocumentHeaderType:
			blocks, documents = blocks[:0], documents+1
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if flow == 0 {
				blocks = enter(blocks, t, tokens[max(i-1, 0)])
			}
		}
		line := 0
		if t.Position != nil {
			line = t.Position.Line
		}
		switch n := len(blocks); {
		case n+flow > maxDepth:
			return &Error{line, fmt.Sprintf("more than %d lists in each other", maxDepth)}
		case n > 0 && blocks[n-1].keys > l.Keys:
			return &Error{line, fmt.Sprintf("more than %d keys in one mapping", l.Keys)}
		case documents > 2:
			return &Error{line, l.What + " is one document"}
		}
	}
	return nil
}

// enter is what lies around the entry that a token begins. before is the token before it, the key of a mapping.
func enter(blocks []block, t, before *token.Token) []block {
	list := t.Type == token.SequenceEntryType
	if t.Type == token.MappingValueType {
		t = before
	}
	if t.Position == nil {
		return blocks
	}
	column := t.Position.Column
	for n := len(blocks); n > 0; n = len(blocks) {
		if b := &blocks[n-1]; b.column < column || b.column == column && (b.list == list || list) {
			break // list: one that stands in the column of its key
		}
		blocks = blocks[:n-1]
	}
	if n := len(blocks); n == 0 || blocks[n-1].column != column || blocks[n-1].list != list {
		blocks = append(blocks, block{column, 0, list})
	}
	if !list {
		blocks[len(blocks)-1].keys++
	}
	return blocks
}

// size is how many values a node has, with what aliases stand for, up to a little more than maxNodes. sizes are those of the anchors.
func size(n ast.Node, sizes map[string]int) int {
	sum := 1
	switch v := n.(type) {
	case *ast.SequenceNode:
		for _, x := range v.Values {
			sum = min(sum+size(x, sizes), maxNodes+1)
		}
	case *ast.MappingNode:
		for _, x := range v.Values {
			sum = min(sum+size(x, sizes), maxNodes+1)
		}
	case *ast.MappingValueNode:
		sum = size(v.Key, sizes) + size(v.Value, sizes)
	case *ast.MappingKeyNode:
		sum = size(v.Value, sizes)
	case *ast.TagNode:
		sum = size(v.Value, sizes)
	case *ast.AnchorNode:
		sum = size(v.Value, sizes)
		sizes[v.Name.String()] = sum
	case *ast.AliasNode:
		sum = max(sizes[v.Value.String()], 1)
	}
	return min(sum, maxNodes+1)
}

// Line is where an error of this package or of the parser is, 0 if it does not say, and what it says.
func Line(err error) (line int, message string) {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Line, e.Text
	}
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		return 0, strings.Join(strings.Fields(err.Error()), " ")
	}
	if unknown := (*yaml.UnknownFieldError)(nil); errors.As(err, &unknown) {
		return at.GetToken().Position.Line, fmt.Sprintf("unknown key %q", at.GetToken().Value)
	}
	return at.GetToken().Position.Line, at.GetMessage()
}

// OneLine is an error without the text around its place.
func OneLine(err error) string { return yaml.FormatError(err, false, false) }
