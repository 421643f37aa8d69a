package decision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// recipeHead is the first line of a recipe that was written from a plan.
const recipeHead = "# a recipe: qwb calibrate MODEL --data D --platform P --recipe FILE\n"

// EncodeRecipe writes the decisions in force, and the tuning, as a recipe that ParseRecipe reads: without evidence, and without what
// automatic choices and tuning chose, which is about one model's data. Properties of the whole plan come first, without those of usual,
// which hold anyway.
func EncodeRecipe(list []Decision, usual Properties) ([]byte, error) {
	var whole Cell
	var rest []Decision
	in := InForce(list)
	for i := range list {
		d := list[i]
		switch {
		case !in[i]:
		case d.Method != "":
			rest = append(rest, d)
		case d.Empty() || d.By == ByTune || d.By == ByCalibrate && len(d.Select) > 0:
		case len(d.Select) == 0:
			for k := range properties {
				if d.has(k) {
					whole.put(&d.Properties, k, i+1)
				}
			}
		default:
			rest = append(rest, Decision{By: ByRecipe, Goal: d.Goal, Select: d.Select, Properties: d.Properties})
		}
	}
	first := Decision{By: ByRecipe}
	for k, p := range properties {
		if whole.has(k) && p.text(&whole.Properties) != p.text(&usual) {
			p.copy(&first.Properties, &whole.Properties)
		}
	}
	b := bytes.NewBufferString(recipeHead)
	if !first.Empty() {
		rest = slices.Insert(rest, 0, first)
	}
	for i := range rest {
		if err := writeStep(b, &rest[i]); err != nil {
			return nil, err
		}
	}
	if len(rest) == 0 {
		b.WriteString("[]\n")
	}
	return b.Bytes(), nil
}

// writeStep writes a decision, or the tuning behind it.
func writeStep(b *bytes.Buffer, d *Decision) error {
	if d.Method != "" {
		t, err := tuningOf(d)
		if err != nil {
			return err
		}
		return writeKeys(b, "- tune: {", ", ", "}\n", t)
	}
	if _, err := d.Encode(); err != nil { // text that is no UTF-8
		return err
	}
	return writeKeys(b, "- ", "\n  ", "\n", struct {
		Goal   string `json:"goal,omitempty"`
		Select Select `json:"select,omitempty"`
		Properties
	}{d.Goal, d.Select, d.Properties})
}

// writeKeys writes the keys of what is an object in JSON: the first after begin, those that follow after between.
func writeKeys(b *bytes.Buffer, begin, between, end string, v any) error {
	text, err := plainJSON(v)
	if err != nil {
		return fmt.Errorf("recipe: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	_, _ = dec.Token() // of the object
	for mark := begin; dec.More(); mark = between {
		key, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return fmt.Errorf("recipe: %w", err)
		}
		fmt.Fprintf(b, "%s%s: %s", mark, key, yamlValue(value))
	}
	b.WriteString(end)
	return nil
}

// plain are texts that YAML takes for what they are without quotation marks; notPlain look so but mean something else.
var (
	plain    = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./:()-]*[A-Za-z0-9_/)]$`)
	notPlain = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off)$`)
)

// yamlValue is a value, as JSON has it, in YAML. JSON is YAML but for characters beyond the basic plane and the like,
// which are quoted alike.
func yamlValue(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil && plain.MatchString(s) && !notPlain.MatchString(s) {
		return s
	}
	return string(v)
}
