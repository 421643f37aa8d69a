package decision

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"qwb/internal/strictyaml"
)

// maxRecipe bounds the file of a recipe, and what its aliases may make of it; maxDepth how deep its lists and mappings may lie in each
// other.
const (
	maxRecipe = 4 << 20
	maxDepth  = 32
)

// exponent is a number with an exponent and no point, which the parser takes for text.
var exponent = regexp.MustCompile(`^-?(0|[1-9][0-9]*)[eE][-+]?[0-9]+$`)

// yamlDocument is a list in YAML as JSON in which each value stands on the line that it has in the file, so that errors about the JSON say
// the lines of the file.
type yamlDocument struct {
	file  string
	json  []byte
	items []yamlItem

	line    int // that json has come to
	anchors map[string]ast.Node
	inside  int // of how many aliases: what they stand for is not on their line
}

// yamlItem is where an entry of the list and its keys stand.
type yamlItem struct {
	line int
	keys map[string]int
}

// readYAML reads a file that is one list.
func readYAML(file string, src []byte) (*yamlDocument, error) {
	f, err := strictyaml.Parse(src, strictyaml.Limits{What: "a recipe", Bytes: maxRecipe})
	if err != nil {
		line, message := strictyaml.Line(err)
		if line == 0 {
			return nil, fmt.Errorf("%s: %s", file, message)
		}
		return nil, fmt.Errorf("%s:%d: %s", file, line, message)
	}
	d := &yamlDocument{file: file, line: 1, anchors: map[string]ast.Node{}}
	var body ast.Node
	for _, doc := range f.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			return nil, d.fail(doc.Body, "a recipe is one document")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, fmt.Errorf("%s: the recipe is empty", file)
	}
	list, ok := body.(*ast.SequenceNode)
	if !ok {
		return nil, d.fail(body, "a recipe is a list of steps: decisions, tune, gate")
	}
	d.text("[")
	for i, n := range list.Values {
		if i > 0 {
			d.text(",")
		}
		d.items = append(d.items, yamlItem{lineOf(n), map[string]int{}})
		if err := d.value(n, 1); err != nil {
			return nil, err
		}
	}
	d.text("]")
	return d, nil
}

func lineOf(n ast.Node) int {
	for {
		switch v := n.(type) {
		case *ast.MappingNode:
			if len(v.Values) > 0 && !v.IsFlowStyle {
				n = v.Values[0].Key
				continue
			}
		case *ast.MappingValueNode:
			n = v.Key
			continue
		}
		if t := n.GetToken(); t != nil && t.Position != nil {
			return t.Position.Line
		}
		return 0
	}
}

func (d *yamlDocument) fail(n ast.Node, format string, a ...any) error {
	return fmt.Errorf("%s:%d: %s", d.file, lineOf(n), fmt.Sprintf(format, a...))
}

func (d *yamlDocument) text(s string) { d.json = append(d.json, s...) }

// at ends lines until the one on which a value stands.
func (d *yamlDocument) at(n ast.Node) {
	for line := lineOf(n); d.inside == 0 && d.line < line; d.line++ {
		d.text("\n")
	}
}

// scalar writes a string, number, truth value or null.
func (d *yamlDocument) scalar(n ast.Node, v any) error {
	d.at(n)
	b, err := json.Marshal(v)
	if err != nil {
		return d.fail(n, "%v", err)
	}
	d.json = append(d.json, b...)
	return nil
}

// value writes a value. depth is how many lie around it.
func (d *yamlDocument) value(n ast.Node, depth int) error {
	if depth > maxDepth {
		return d.fail(n, "more than %d lists in each other", maxDepth)
	}
	if len(d.json) > 4*maxRecipe {
		return d.fail(n, "aliases make it too large")
	}
	switch v := n.(type) {
	case *ast.SequenceNode:
		d.at(v)
		d.text("[")
		for i, x := range v.Values {
			if i > 0 {
				d.text(",")
			}
			if err := d.value(x, depth+1); err != nil {
				return err
			}
		}
		d.text("]")
		return nil
	case *ast.MappingNode:
		return d.mapping(v, v.Values, depth)
	case *ast.MappingValueNode:
		return d.mapping(v, []*ast.MappingValueNode{v}, depth)
	case *ast.StringNode:
		if v.Token.Type == token.StringType && exponent.MatchString(v.Value) {
			return d.scalar(n, json.Number(v.Value))
		}
		return d.scalar(n, v.Value)
	case *ast.LiteralNode:
		return d.scalar(n, v.Value.Value)
	case *ast.IntegerNode:
		return d.scalar(n, v.Value)
	case *ast.FloatNode:
		return d.scalar(n, v.Value)
	case *ast.BoolNode:
		return d.scalar(n, v.Value)
	case *ast.NullNode:
		return d.fail(n, "there is no value")
	case *ast.InfinityNode, *ast.NanNode:
		return d.fail(n, "a number is infinite or not a number (.inf, .nan)")
	case *ast.AnchorNode:
		err := d.value(v.Value, depth)
		d.anchors[v.Name.String()] = v.Value
		return err
	case *ast.AliasNode:
		return d.alias(v, depth)
	}
	return d.fail(n, "%s is not for recipes", strings.ToLower(n.Type().String()))
}

func (d *yamlDocument) mapping(n ast.Node, pairs []*ast.MappingValueNode, depth int) error {
	d.at(n)
	d.text("{")
	for i, pair := range pairs {
		if i > 0 {
			d.text(",")
		}
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return d.fail(pair.Key, "unknown key %q", pair.Key.String())
		}
		if depth == 1 {
			d.items[len(d.items)-1].keys[key.Value] = lineOf(key)
		}
		if err := d.scalar(key, key.Value); err != nil {
			return err
		}
		d.text(":")
		if err := d.value(pair.Value, depth+1); err != nil {
			return err
		}
	}
	d.text("}")
	return nil
}

// alias writes what an alias stands for.
func (d *yamlDocument) alias(v *ast.AliasNode, depth int) error {
	name := v.Value.String()
	to, ok := d.anchors[name]
	if !ok {
		return d.fail(v, "there is no anchor %q above", name)
	}
	d.at(v)
	d.inside++
	defer func() { d.inside-- }()
	return d.value(to, depth+1)
}
