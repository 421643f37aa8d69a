package language

import (
	"errors"
	"math"
	"slices"

	"qwb/graph/language/decode"
	"qwb/kernels"
	"qwb/kernels/elementary"
)

// rowScore is one token.
type rowScore struct {
	nll, floatNLL, kl float64
	flip              bool
	top               float64 // agreement
}

// rowScorer scores tokens, each by itself, so that threads change nothing.
type rowScorer struct {
	par  kernels.Parallel
	base bool // what is compared with are logarithms of probabilities, as LogProbs has them
	rows []rowScore
	// fixed are the logits that those of score are compared with until the next fix; nil: score is given them.
	fixed []fixedRow
}

// fixedRow is what is known of a row of logits of the float model.
type fixedRow struct {
	exp  []float64 // e^(f - the largest of them)
	tops [tops]int
}

// fix prepares the scorer for logits that are compared with the same ones of the float model, vocab for each token, several times.
func (s *rowScorer) fix(float []float32, vocab int) {
	n := len(float) / vocab
	for len(s.fixed) < n {
		s.fixed = append(s.fixed, fixedRow{exp: make([]float64, vocab)})
	}
	s.par.Run(n, func(i int) {
		f, r := float[i*vocab:][:vocab], &s.fixed[i]
		r.tops = mostLikely(f)
		most := float64(f[r.tops[0]])
		for k, v := range f {
			r.exp[k] = elementary.Exp(float64(v) - most)
		}
	})
}

// score compares logits with the ids that come next: vocab logits for each id, in the same order those of the float model or nil. There is
// at least one id. The result is valid until the next call.
func (s *rowScorer) score(logits, float []float32, next []int) ([]rowScore, error) {
	if cap(s.rows) < len(next) {
		s.rows = make([]rowScore, len(next))
	}
	s.rows = s.rows[:len(next)]
	vocab := len(logits) / len(next)
	one := func(i int) {
		q := logits[i*vocab:][:vocab]
		if float == nil {
			s.rows[i] = rowScore{nll: decode.LogSumExp(q) - float64(q[next[i]])}
			return
		}
		f := float[i*vocab:][:vocab]
		switch {
		case s.base:
			s.rows[i] = baseDivergence(q, f, next[i])
			s.rows[i].top = agreement(mostLikely(q), mostLikely(f), vocab)
		case s.fixed != nil:
			s.rows[i] = divergence(q, f, next[i], &s.fixed[i])
		default:
			s.rows[i] = divergence(q, f, next[i], &fixedRow{tops: mostLikely(f)})
		}
	}
	s.par.Run(len(next), one)
	for _, r := range s.rows {
		if x := r.nll + r.floatNLL + r.kl; x-x != 0 { // an infinity or NaN
			return nil, errors.New("there are logits that are not finite")
		}
	}
	return s.rows, nil
}

// divergence scores a token by the logits q and those of the float model f, in float64. With L(x) = ln(sum(e^x)) and p = e^(f - L(f)),
//
//	KL = sum(p * (f - q)) + L(q) - L(f)
func divergence(q, f []float32, next int, r *fixedRow) rowScore {
	most := float64(f[r.tops[0]])
	var sum, dot, e float64
	for i, v := range f {
		if r.exp != nil {
			e = r.exp[i]
		} else {
			e = elementary.Exp(float64(v) - most)
		}
		sum += e
		dot += e * (float64(v) - float64(q[i]))
	}
	lf, lq := most+math.Log(sum), decode.LogSumExp(q)
	likely := mostLikely(q)
	return rowScore{nll: lq - float64(q[next]), floatNLL: lf - float64(f[next]), kl: dot/sum + lq - lf, flip: likely[0] != r.tops[0],
		top: agreement(likely, r.tops, len(f))}
}

// tops is how many of the most likely tokens are compared.
const tops = 5

// agreement is the share of the most likely tokens b of a vocabulary that are among the most likely a.
func agreement(a, b [tops]int, vocab int) float64 {
	n, both := min(tops, vocab), 0
	for _, i := range a[:n] {
		if slices.Contains(b[:n], i) {
			both++
		}
	}
	return float64(both) / float64(n)
}

// mostLikely are the places of the largest, the largest first; of equal ones the first counts.
func mostLikely(x []float32) (at [tops]int) {
	n := 0
	for i, v := range x {
		if n == tops && v <= x[at[tops-1]] {
			continue
		}
		n = min(n+1, tops)
		k := n - 1
		for ; k > 0 && v > x[at[k-1]]; k-- {
			at[k] = at[k-1]
		}
		at[k] = i
	}
	return at
}
