package pattern_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/pattern"
)

var (
	argument  = regexp.MustCompile(`\(([^)]*)\)`)
	operator  = regexp.MustCompile(`= *([A-Za-z.]+(::[A-Za-z]+)?)[^(]*\(`)
	condition = regexp.MustCompile(`(\w+) (\??=) ([^,}]+)`)
)

// instance writes a graph in which p holds, by turning the pattern's text into that of a graph: first alternatives, fresh
// inputs, constants as asked for.
func instance(t *testing.T, p *pattern.Pattern) *graph.Graph {
	t.Helper()
	head := []string{"opset 20"}
	defined := map[string]bool{}
	var body []string
	last := ""
	for _, line := range strings.Split(strings.TrimSpace(p.String()), "\n") {
		last = strings.TrimSpace(strings.SplitN(line, "=", 2)[0])
		defined[last] = true
		op := operator.FindStringSubmatch(line)[1]
		var args []string
		for i, a := range strings.Split(argument.FindStringSubmatch(line)[1], ",") {
			a = strings.TrimSuffix(strings.TrimSpace(a), "?")
			if a == "..." {
				continue
			}
			name, isConst := strings.CutPrefix(a, "const ")
			if !isConst {
				name, isConst = strings.CutPrefix(a, "scalar ")
			}
			switch {
			case isConst && !defined[name]:
				head = append(head, fmt.Sprintf("const %s: f32[] = 0.25", name))
			case a[0] == '-' || a[0] >= '0' && a[0] <= '9':
				name = fmt.Sprintf("lit_%s_%d", last, i)
				head = append(head, fmt.Sprintf("const %s: f32[] = %s", name, a))
			case strings.HasPrefix(name, "axes") && !defined[name]:
				head = append(head, fmt.Sprintf("const %s: i64[1] = [-1]", name))
			case !defined[name]:
				head = append(head, fmt.Sprintf("input %s: f32[2,4,4,4]", name))
			}
			defined[name] = true
			args = append(args, name)
		}
		var attrs []string
		if i := strings.IndexByte(line, '{'); i >= 0 {
			for _, c := range condition.FindAllStringSubmatch(line[i:], -1) {
				attrs = append(attrs, c[1]+"="+c[3])
			}
		}
		text := fmt.Sprintf("%s = %s(%s)", last, op, strings.Join(args, ", "))
		if len(attrs) > 0 {
			text += " {" + strings.Join(attrs, ", ") + "}"
		}
		body = append(body, text)
	}
	text := strings.Join(append(append(head, body...), "output "+last), "\n")
	g, err := graph.Parse(text)
	require.NoError(t, err, text)
	return g
}
