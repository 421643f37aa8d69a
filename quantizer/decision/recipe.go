package decision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"qwb/internal/strictjson"
)

// maxRecipe bounds the file of a recipe.
const maxRecipe = 16 << 20

// ParseRecipe reads a recipe: YAML, a list of decisions with the keys that a plan has. They are by "recipe", whatever they
// say. file names it in errors.
func ParseRecipe(file string, src []byte) ([]Decision, error) {
	if len(src) > maxRecipe {
		return nil, fmt.Errorf("%s: %d bytes are too many for a recipe", file, len(src))
	}
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, fmt.Errorf("%s: the recipe is empty", file)
	}
	text, err := yaml.YAMLToJSON(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.Join(strings.Fields(yaml.FormatError(err, false, false)), " "))
	}
	var steps []json.RawMessage
	if !json.Valid(text) { // what YAML has and JSON has not
		return nil, fmt.Errorf("%s: a number in it is infinite or not a number (.inf, .nan)", file)
	}
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, fmt.Errorf("%s: a recipe is a list of decisions", file)
	}
	list := make([]Decision, len(steps))
	for i, step := range steps {
		what := fmt.Sprintf("%s: step %d", file, i+1)
		d := &list[i]
		if err := strictjson.Decode(what, step, d); err != nil {
			return nil, err
		}
		d.By = ByRecipe
		if err := d.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		switch {
		case d.Method != "" || d.Overlay != "":
			return nil, fmt.Errorf("%s: steps of tuning cannot be in a recipe yet: run qwb tune --method %s", what, d.Method)
		case len(d.Unset) > 0:
			return nil, fmt.Errorf("%s: takes back decisions, of which a recipe has none", what)
		}
		d.Evidence, d.After = nil, "" // they are about the plan that they come from
	}
	return list, nil
}

// EncodeRecipe writes the decisions in force as a recipe that ParseRecipe reads: without evidence, and without what automatic choices
// chose, which is about one model's data.
func EncodeRecipe(list []Decision) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# a recipe: qwb calibrate MODEL --data D --platform P --recipe FILE\n")
	for i, in := range InForce(list) {
		d := list[i]
		if !in || d.Properties.Empty() || d.By == ByCalibrate && len(d.Select) > 0 {
			continue
		}
		d.By, d.Evidence, d.After = ByRecipe, nil, ""
		line, err := d.Encode()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.Bytes(), nil
}
