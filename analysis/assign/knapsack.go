package assign

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"qwb/internal/arrange"
)

// What is solved is the multiple-choice knapsack problem: one item of each class, the weights within a limit, the least value. The linear
// relaxation (Sinha and Zoltners, Operations Research 27, 1979) gives a bound, a first choice and the rate at which weight buys value; how
// far an item is from that rate says whether any better choice can have it. What is left (the core; Pisinger, European Journal of
// Operational Research 83, 1995) is searched by lists of states that are worse than no other in both weight and value.

// item is an option of a class.
type item struct {
	weight, value float64
	option        int
}

// class is a unit.
type class struct {
	all  []item // those that no other beats in both, by ascending weight and descending value
	hull []int  // of them, those on the lower convex hull
	base int    // the item of the relaxed solution
}

// reduce drops items that another one beats or equals (of equals the first option stays) and finds the hull.
func (c *class) reduce() {
	arrange.Stable(c.all, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.value, b.value))
	})
	kept := c.all[:0]
	for _, it := range c.all {
		if len(kept) == 0 || it.value < kept[len(kept)-1].value {
			kept = append(kept, it)
		}
	}
	c.all = kept
	for i := range kept {
		for len(c.hull) > 1 && c.rate(c.hull[len(c.hull)-2], c.hull[len(c.hull)-1]) <= c.rate(c.hull[len(c.hull)-1], i) {
			c.hull = c.hull[:len(c.hull)-1]
		}
		c.hull = append(c.hull, i)
	}
}

// rate is how much value is saved for each unit of weight between two items.
func (c *class) rate(from, to int) float64 {
	return (c.all[from].value - c.all[to].value) / (c.all[to].weight - c.all[from].weight)
}

// problem is one to be solved.
type problem struct {
	ctx     context.Context
	classes []class
	limit   float64 // with the rounding of sums allowed for
	least   float64 // the least weight there is

	tiny   float64 // differences of value below it are rounding
	rate   float64 // of the relaxed solution
	weight float64 // of the base items
	value  float64
	linear float64 // the value of the relaxed solution
	bound  float64 // no choice has a smaller value

	best      []int // an item by class
	bestValue float64
}

// states are how many states the passes of the search keep: few give a good choice, with which many are rarely needed.
var states = []int{128, 2048, 8192}

// solve returns an option for each class, and how far its value may be from the least.
func (p *problem) solve() ([]int, float64, error) {
	var size, values float64
	for i := range p.classes {
		all := p.classes[i].all
		p.least += all[0].weight
		size += max(math.Abs(all[0].weight), math.Abs(all[len(all)-1].weight))
		values += max(math.Abs(all[0].value), math.Abs(all[len(all)-1].value))
	}
	p.limit += 1e-12 * size
	p.tiny = 1e-12 * values
	if p.least > p.limit {
		return nil, 0, ErrBound
	}
	p.relax()
	for _, keep := range states {
		if p.bound >= p.bestValue-p.tiny {
			break
		}
		p.bound = max(p.bound, p.search(keep))
		if err := p.ctx.Err(); err != nil {
			return nil, 0, err
		}
	}
	gap := max(p.bestValue-p.bound, 0)
	if gap <= p.tiny {
		gap = 0
	}
	choice := make([]int, len(p.classes))
	for i, k := range p.best {
		choice[i] = p.classes[i].all[k].option
	}
	return choice, gap, nil
}

// relax finds the relaxed solution, its bound, and a first choice.
func (p *problem) relax() {
	type step struct {
		class, to int // to a place in the hull
		rate      float64
	}
	var steps []step
	for i := range p.classes {
		c := &p.classes[i]
		p.value += c.all[0].value
		for h := 1; h < len(c.hull); h++ {
			steps = append(steps, step{i, h, c.rate(c.hull[h-1], c.hull[h])})
		}
	}
	arrange.Stable(steps, func(a, b step) int { return -cmp.Compare(a.rate, b.rate) })
	p.weight = p.least
	for _, s := range steps {
		c := &p.classes[s.class]
		from, to := c.all[c.hull[s.to-1]], c.all[c.hull[s.to]]
		if p.weight+to.weight-from.weight > p.limit {
			p.rate, p.linear = s.rate, -s.rate*(p.limit-p.weight)
			break
		}
		c.base = c.hull[s.to]
		p.weight += to.weight - from.weight
		p.value += to.value - from.value
	}
	p.linear += p.value
	p.bound = p.linear
	// The rest of the weight goes to the best items that still fit.
	p.best = make([]int, len(p.classes))
	for i := range p.best {
		p.best[i] = p.classes[i].base
	}
	p.bestValue = p.value
	left := p.limit - p.weight
	for _, s := range steps {
		c := &p.classes[s.class]
		from, to := c.all[p.best[s.class]], c.all[c.hull[s.to]]
		if grows := to.weight - from.weight; grows > 0 && grows <= left {
			p.best[s.class] = c.hull[s.to]
			left -= grows
			p.bestValue += to.value - from.value
		}
	}
}

// extra is how much value an item of a class costs, at least, beside the relaxed solution.
func (p *problem) extra(c *class, k int) float64 {
	b, it := c.all[c.base], c.all[k]
	return it.value - b.value + p.rate*(it.weight-b.weight)
}

// core is a class that a better choice may have another item of than the relaxed solution.
type core struct {
	class int
	items []int
	near  float64 // how far, at least, the rates of the items are from that of the relaxed solution
	// Of this class and those after it: the best rate at which weight still buys value, the least at which it can be given back, and the
	// most of it that can be given back.
	buys, gives, back float64
}

// core returns the classes of the core, those first that are nearest to the rate.
func (p *problem) core() []core {
	var list []core
	room := p.bestValue - p.linear
	for i := range p.classes {
		c := &p.classes[i]
		one := core{class: i, near: math.Inf(1), gives: math.Inf(1)}
		for k := range c.all {
			if k == c.base {
				one.items = append(one.items, k)
				continue
			}
			if p.extra(c, k) > room+p.tiny {
				continue
			}
			one.items = append(one.items, k)
			if k > c.base {
				one.buys = max(one.buys, c.rate(c.base, k))
				one.near = min(one.near, p.rate-c.rate(c.base, k))
			} else {
				one.gives = min(one.gives, c.rate(k, c.base))
				one.back = max(one.back, c.all[c.base].weight-c.all[k].weight)
				one.near = min(one.near, c.rate(k, c.base)-p.rate)
			}
		}
		if len(one.items) > 1 {
			list = append(list, one)
		}
	}
	arrange.Stable(list, func(a, b core) int { return cmp.Compare(a.near, b.near) })
	for i := len(list) - 2; i >= 0; i-- {
		next := &list[i+1]
		list[i].buys, list[i].gives, list[i].back = max(list[i].buys, next.buys), min(list[i].gives, next.gives), list[i].back+next.back
	}
	return list
}

// state is a choice for some of the core, the other classes as in the relaxed solution.
type state struct {
	weight, value float64
	bound         float64 // of all choices that it can become
	from, item    int32   // the state before, and the item that was chosen
}

// search looks through the core, with so many states kept at most, for a better choice than the best one. It returns a bound of the value
// of all choices: that of the best one where none was dropped.
func (p *problem) search(keep int) (bound float64) {
	list := p.core()
	layers := [][]state{{{weight: p.weight, value: p.value, from: -1}}}
	dropped := math.Inf(1)
	for depth, one := range list {
		if p.ctx.Err() != nil {
			return p.bound
		}
		c := &p.classes[one.class]
		before := layers[depth]
		rest := core{gives: math.Inf(1)}
		if depth+1 < len(list) {
			rest = list[depth+1]
		}
		var lists [][]state
		for _, k := range one.items {
			dw, dv := c.all[k].weight-c.all[c.base].weight, c.all[k].value-c.all[c.base].value
			grown := make([]state, 0, len(before))
			for i := range before {
				s := state{weight: before[i].weight + dw, value: before[i].value + dv, from: int32(i), item: int32(k)}
				if over := s.weight - p.limit; over > 0 {
					if over > rest.back {
						continue
					}
					s.bound = s.value + rest.gives*over
				} else {
					s.bound = s.value + rest.buys*over
				}
				grown = append(grown, s)
			}
			lists = append(lists, grown)
		}
		now := undominated(merged(lists))
		better := -1
		for i := range now {
			if s := &now[i]; s.weight <= p.limit && s.value < p.bestValue-p.tiny {
				p.bestValue, better = s.value, i
			}
		}
		if better >= 0 {
			p.best = p.traced(list, layers, now[better])
		}
		now = slices.DeleteFunc(now, func(s state) bool { return s.bound >= p.bestValue-p.tiny })
		if len(now) > keep {
			bounds := make([]float64, len(now))
			for i := range now {
				bounds[i] = now[i].bound
			}
			slices.Sort(bounds)
			most := bounds[keep]
			ties := keep - sort.SearchFloat64s(bounds, most) // so many of this bound are kept
			dropped = min(dropped, most)
			now = slices.DeleteFunc(now, func(s state) bool {
				if s.bound == most && ties > 0 {
					ties--
					return false
				}
				return s.bound >= most
			})
		}
		if len(now) == 0 {
			break
		}
		layers = append(layers, now)
	}
	return min(dropped, p.bestValue)
}

// traced returns the choice that a state after the last of the layers is.
func (p *problem) traced(list []core, layers [][]state, s state) []int {
	best := make([]int, len(p.classes))
	for i := range best {
		best[i] = p.classes[i].base
	}
	for depth := len(layers) - 1; depth >= 0; depth-- {
		best[list[depth].class] = int(s.item)
		s = layers[depth][s.from]
	}
	return best
}

// merged makes one list of lists that are sorted by weight, then value.
func merged(lists [][]state) []state {
	for len(lists) > 1 {
		var next [][]state
		for i := 0; i < len(lists); i += 2 {
			if i+1 == len(lists) {
				next = append(next, lists[i])
				continue
			}
			a, b := lists[i], lists[i+1]
			out := make([]state, 0, len(a)+len(b))
			for len(a) > 0 && len(b) > 0 {
				if cmp.Or(cmp.Compare(a[0].weight, b[0].weight), cmp.Compare(a[0].value, b[0].value)) <= 0 {
					out, a = append(out, a[0]), a[1:]
				} else {
					out, b = append(out, b[0]), b[1:]
				}
			}
			next = append(next, append(append(out, a...), b...))
		}
		lists = next
	}
	return lists[0]
}

// undominated keeps the states that have less value than all of less weight.
func undominated(list []state) []state {
	kept := list[:0]
	for _, s := range list {
		if len(kept) == 0 || s.value < kept[len(kept)-1].value {
			kept = append(kept, s)
		}
	}
	return kept
}
