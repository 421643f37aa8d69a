package decode

import "container/heap"

// merger joins neighbouring parts of a text until no pair is left that may be joined: always the best pair, the leftmost of several
// that are equally good. It is the loop of byte-pair encoding, with a queue instead of a search through all pairs each time.
type merger struct {
	parts []part
	queue pairs
	// join returns the id of two parts joined and how good that is; more is better.
	join func(a, b int) (id int, score float64, ok bool)
}

// part is an id between its neighbours, which are indexes, -1 at the ends. A part that was joined to its left is dead.
type part struct {
	id, left, right int
	dead            bool
}

// pair proposes to join a part with its right neighbour; it is out of date if either is no longer what it was.
type pair struct {
	at, a, b int
	id       int
	score    float64
}

type pairs []pair

func (p pairs) Len() int { return len(p) }
func (p pairs) Less(i, j int) bool {
	if p[i].score != p[j].score {
		return p[i].score > p[j].score
	}
	return p[i].at < p[j].at
}
func (p pairs) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)   { *p = append(*p, x.(pair)) }
func (p *pairs) Pop() any {
	old := *p
	x := old[len(old)-1]
	*p = old[:len(old)-1]
	return x
}

// merge joins ids and returns what is left.
func merge(ids []int, join func(a, b int) (int, float64, bool)) []int {
	m := &merger{parts: make([]part, len(ids)), join: join}
	for i, id := range ids {
		m.parts[i] = part{id: id, left: i - 1, right: i + 1}
	}
	if len(ids) > 0 {
		m.parts[len(ids)-1].right = -1
	}
	for i := range ids {
		m.propose(i)
	}
	for len(m.queue) > 0 {
		m.take(heap.Pop(&m.queue).(pair))
	}
	out := ids[:0:0]
	for i := 0; i >= 0 && i < len(m.parts); i = m.parts[i].right {
		out = append(out, m.parts[i].id)
	}
	return out
}

func (m *merger) propose(at int) {
	if at < 0 || m.parts[at].right < 0 {
		return
	}
	a, b := m.parts[at].id, m.parts[m.parts[at].right].id
	if id, score, ok := m.join(a, b); ok {
		heap.Push(&m.queue, pair{at, a, b, id, score})
	}
}

func (m *merger) take(p pair) {
	left := &m.parts[p.at]
	if left.dead || left.id != p.a || left.right < 0 || m.parts[left.right].id != p.b {
		return
	}
	right := &m.parts[left.right]
	right.dead = true
	left.id, left.right = p.id, right.right
	if left.right >= 0 {
		m.parts[left.right].left = p.at
	}
	m.propose(left.left)
	m.propose(p.at)
}
