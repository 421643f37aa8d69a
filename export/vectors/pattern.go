package vectors

import (
	"slices"

	"qwb/internal/arrange"
	"qwb/quantizer/lower"
)

// Pattern is a run of steps that a program has several times with other numbers.
type Pattern struct {
	Steps int // of one place
	// Places are where the pattern occurs, by the id of the first step; places do not overlap.
	Places []lower.StepID
}

// Repeated returns the repeated patterns of a program, those with the most places first, and the steps that belong to none.
//
// The program is cut into blocks, the smallest runs of steps between which one tensor alone passes. A pattern is a run of blocks of
// equal structure in two places or more: equal steps, connected in the same way, but for the sizes of tensors, weights and scales. The
// pattern that describes most steps, (places - 1) * steps, is taken first; then the steps of its places are gone, and the next is
// looked for. Of equals the one of more blocks, then that with the earlier first place is taken.
func Repeated(p *lower.Program) (patterns []Pattern, rest []lower.StepID) {
	list := blocks(p)
	units := make([]int, len(list)) // by block: its structure, -1 once it belongs to a pattern
	seen := map[string]int{}
	for i, b := range list {
		text := structure(p, b)
		if _, ok := seen[text]; !ok {
			seen[text] = len(seen)
		}
		units[i] = seen[text]
	}
	for {
		places, n := best(units, list)
		if places == nil {
			break
		}
		found := Pattern{Steps: list[places[0]+n-1].to - list[places[0]].from}
		for _, at := range places {
			found.Places = append(found.Places, lower.StepID(list[at].from))
			for i := range n {
				units[at+i] = -1
			}
		}
		patterns = append(patterns, found)
	}
	arrange.Stable(patterns, func(a, b Pattern) int { return len(b.Places) - len(a.Places) })
	for i, b := range list {
		for id := b.from; units[i] >= 0 && id < b.to; id++ {
			rest = append(rest, lower.StepID(id))
		}
	}
	return patterns, rest
}

// best returns where the run of units that describes most steps stands, and how many units it has; nil if nothing repeats.
func best(units []int, list []span) (places []int, n int) {
	names := slices.Clone(units) // by position: the run of the present length that begins here, -1 for none
	most := 0
	for length := 1; ; length++ {
		where := map[int][]int{}
		for at, name := range names {
			if all := where[name]; name >= 0 && (len(all) == 0 || all[len(all)-1]+length <= at) {
				where[name] = append(all, at)
			}
		}
		repeats := false
		for _, name := range names { // in order, so that the first of equals wins
			all := where[name]
			if name < 0 || len(all) < 2 {
				continue
			}
			repeats = true
			steps := (len(all) - 1) * (list[all[0]+length-1].to - list[all[0]].from)
			if steps > most || steps == most && length > n {
				most, places, n = steps, all, length
			}
		}
		if !repeats {
			return places, n
		}
		longer := map[[2]int]int{}
		next := make([]int, len(names))
		for at := range names {
			next[at] = -1
			if at+length < len(units) && names[at] >= 0 && units[at+length] >= 0 {
				key := [2]int{names[at], units[at+length]}
				if _, ok := longer[key]; !ok {
					longer[key] = len(longer)
				}
				next[at] = longer[key]
			}
		}
		names = next
	}
}
