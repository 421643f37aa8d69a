package observers

import (
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// GramRows says where the rows of one input are: element k of row r of group g is Codes[Base[r]+Offset[g*K+k]], an integer of the
// moments' fixed point or qmath.NotFinite; offsets are at least 0. Rows of Conv overlap, and are never written out as a whole.
type GramRows struct {
	Codes        []int16
	Base, Offset []int32
	Finite       bool   // no code is NotFinite
	Limited      uint64 // numbers that had to be limited
}

// GramAdder adds rows to moments: it packs them for kernels.Table.Gram and adds up many at once. It is not safe for concurrent use; its
// work is shared by par.
type GramAdder struct {
	g     *Gram
	table *kernels.Table
	par   kernels.Parallel
	room  int // rows that fit
	n     int // rows packed
	x, f  []int16
	bad   []bool // of the rows being added, by group
}

// pairs is how many pairs of rows an adder keeps: enough for a block of sums not to be read from memory for nothing, without needing
// many megabytes for the widest operators.
func (s gramShape) pairs() int {
	const most, least, bytes = 512, 64, 8 << 20
	return max(least, min(most, bytes/(s.all*4*gramLanes)))
}

// Add returns an adder. Moments are complete when it is closed.
func (g *Gram) Add(table *kernels.Table, par kernels.Parallel) *GramAdder {
	a := &GramAdder{g: g, table: table, par: par, room: 2 * g.shape.pairs()}
	a.x = make([]int16, g.shape.all*a.room*gramLanes)
	if g.hasFloat() {
		a.f = make([]int16, len(a.x))
	}
	return a
}

// Rows adds rows of x and, where the moments have a float lane, the same rows of f. Where there are more than MaxGramRows it adds none and
// reports false.
func (a *GramAdder) Rows(x, f *GramRows) bool {
	g := a.g
	for _, n := range g.Count {
		if n+uint64(len(x.Base)) > MaxGramRows {
			return false
		}
	}
	g.unclosed = true
	g.Limited += x.Limited
	finite := x.Finite
	if f != nil {
		g.Limited += f.Limited
		finite = finite && f.Finite
	}
	for first := 0; first < len(x.Base); {
		n := min(a.room-a.n, len(x.Base)-first)
		a.bad = a.bad[:0]
		if !finite {
			a.findBad(x, f, first, n)
		}
		for group := range g.Count {
			g.Count[group] += uint64(n)
			for r := range a.bad[min(group*n, len(a.bad)):min(group*n+n, len(a.bad))] {
				if a.bad[group*n+r] {
					g.Count[group]--
					g.Skipped++
				}
			}
		}
		a.par.Run(g.shape.all, func(p int) {
			a.pack(a.x, g.sumX, x, p, first, n)
			if f != nil {
				a.pack(a.f, g.sumF, f, p, first, n)
			}
		})
		a.n += n
		first += n
		if a.n == a.room {
			a.flush()
		}
	}
	return true
}

// findBad marks the rows that are not finite.
func (a *GramAdder) findBad(x, f *GramRows, first, n int) {
	k := a.g.K
	a.bad = append(a.bad, make([]bool, a.g.Groups*n)...)
	for _, rows := range []*GramRows{x, f} {
		if rows == nil || rows.Finite {
			continue
		}
		for group := range a.g.Groups {
			for r, base := range rows.Base[first : first+n] {
				for _, off := range rows.Offset[group*k:][:k] {
					if rows.Codes[base+off] == qmath.NotFinite {
						a.bad[group*n+r] = true
						break
					}
				}
			}
		}
	}
}

// pack writes n rows from number first on behind those that panel p has already, and adds them to sums.
func (a *GramAdder) pack(to []int16, sums []int64, rows *GramRows, p, first, n int) {
	const wide = 2 * gramLanes
	from, columns := a.g.shape.columns(p)
	offset, codes := rows.Offset[from:from+columns], rows.Codes
	panel := to[p*a.room*gramLanes:][:a.room*gramLanes]
	var sum [gramLanes]int64
	base := rows.Base[first : first+n]
	one := func(r int) {
		at := panel[(a.n+r)/2*wide:][:wide]
		slot := (a.n + r) % 2
		for c, off := range offset {
			v := codes[base[r]+off]
			if len(a.bad) > 0 && a.bad[(from+c)/a.g.K*n+r] {
				v = 0
			}
			at[2*c+slot] = v
			sum[c] += int64(v)
		}
	}
	r := 0
	if a.n%2 != 0 || len(a.bad) > 0 {
		for ; r < n && (len(a.bad) > 0 || r == 0); r++ {
			one(r)
		}
	}
	for ; r+1 < n; r += 2 {
		pairUp((*[wide]int16)(panel[(a.n+r)/2*wide:]), &sum, codes[base[r]:], codes[base[r+1]:], offset)
	}
	if r < n {
		one(r)
	}
	for c := range columns {
		sums[from+c] += sum[c]
	}
}

// pairUp writes two rows side by side and adds them to sum. It has a function of its own, so that all that its loop needs is in registers.
//
//go:noinline
func pairUp(to *[2 * gramLanes]int16, sum *[gramLanes]int64, v, w []int16, offset []int32) {
	for c, off := range offset {
		c, x, y := uint(c)%gramLanes, v[off], w[off]
		to[2*c], to[2*c+1] = x, y
		sum[c] += int64(x) + int64(y)
	}
}

// flush adds the rows packed to the moments.
func (a *GramAdder) flush() {
	const lanes, block = gramLanes, gramLanes * gramLanes
	g, s := a.g, a.g.shape
	if a.n%2 != 0 { // the other row of the last pair
		for _, to := range [][]int16{a.x, a.f} {
			for p := range len(to) / (a.room * lanes) {
				last := to[p*a.room*lanes+a.n/2*2*lanes:][:2*lanes]
				for c := range lanes {
					last[2*c+1] = 0
				}
			}
		}
	}
	panel := func(of []int16, p int) []int16 { return of[p*a.room*lanes:][:(a.n+1)/2*2*lanes] }
	square, cross := int(g.X.Limit)*int(g.X.Limit), int(g.X.Limit)*int(g.F.Limit)
	a.par.Run(s.all, func(p int) {
		group, i := p/s.panels, p%s.panels
		for j := i; j < s.panels; j++ {
			a.table.Gram(g.xx[s.half(group, i, j)*block:][:block], panel(a.x, p), panel(a.x, group*s.panels+j), square)
		}
		for j := 0; j < s.panels && a.f != nil; j++ {
			a.table.Gram(g.xf[s.square(group, i, j)*block:][:block], panel(a.f, p), panel(a.x, group*s.panels+j), cross)
		}
	})
	a.n = 0
}

// Close adds what is left. More rows may be added later.
func (a *GramAdder) Close() {
	if a.n > 0 {
		a.flush()
	}
	a.g.unclosed = false
}

// AddSums adds what was summed elsewhere over so many rows of each group, all of them finite: by group the products of elements, K x K, of
// which those from the diagonal on count, then by group the elements. Where there are more than MaxGramRows rows it adds none and reports
// false. The moments have no float lane.
func (g *Gram) AddSums(sums []int64, rows, limited uint64) bool {
	for _, n := range g.Count {
		if n+rows > MaxGramRows {
			return false
		}
	}
	for group := range g.Groups {
		g.Count[group] += rows
		for i := range g.K {
			for j := i; j < g.K; j++ {
				g.xx[g.at(g.shape.half, group, i, j)] += sums[(group*g.K+i)*g.K+j]
			}
		}
	}
	for i := range g.sumX {
		g.sumX[i] += sums[g.Groups*g.K*g.K+i]
	}
	g.Limited += limited
	return true
}
