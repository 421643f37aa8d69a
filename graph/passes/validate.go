package passes

import "fmt"

// Validate reports a list in which a name is missing or repeated, a pass has no documentation or a constraint is violated.
func Validate(list []Pass, constraints []Constraint) error {
	position := map[string]int{}
	for i, p := range list {
		if p.Name == "" || p.Doc == "" || p.sweep == nil {
			return fmt.Errorf("pass %d (%q) has no name, documentation or function", i, p.Name)
		}
		if _, dup := position[p.Name]; dup {
			return fmt.Errorf("pass %q stands twice", p.Name)
		}
		position[p.Name] = i
	}
	for _, c := range constraints {
		before, hasBefore := position[c.Before]
		after, hasAfter := position[c.After]
		if c.Why == "" {
			return fmt.Errorf("the constraint between %q and %q has no reason", c.Before, c.After)
		}
		if hasBefore && hasAfter && before >= after {
			return fmt.Errorf("pass %q must stand before %q: %s", c.Before, c.After, c.Why)
		}
	}
	return nil
}
