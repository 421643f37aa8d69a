package verify

import (
	"fmt"
	"sync"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// prepared is what the samples of one step share: the digits of its weights, and what the float executor made of them. It ends with the
// step, so that no more than one step's is in memory.
type prepared struct {
	weights *weights // whose digits they are
	wide    int      // of the digits of the left factor
	right   []digit
	exact   bool       // the sums of digits are
	pairs   [][]pair16 // by output channel: those that saturate for some input; nil where none are counted

	mu       sync.Mutex
	sessions map[string]*exec.Session // by digit and shape of the left factor
	idle     map[string][]*exec.Runner
}

// prepare fills what the samples of a step share; pairs asks for those of products that saturate.
func (p *prepared) prepare(l *linear, pairs bool) {
	if l.weights == nil {
		return
	}
	own := *l
	own.weights = l.weights.filled()
	p.cut(&own)
	if p.weights = l.weights; pairs && own.bytes() {
		p.pairs = own.risky()
	}
}

// cut makes digits of constant weights, for any input of its type.
func (p *prepared) cut(l *linear) {
	p.weights = l.weights
	least, most := int32(0), int32(entries(l.x)-1)
	if l.x.QMin < 0 {
		least, most = -(most+1)/2, most/2
	}
	p.digits(max(most-l.x.ZeroPoint, l.x.ZeroPoint-least), l.weights.filled().centered(), l.weights.reach)
}

// digits cuts the right factor for left ones up to the magnitude reach; sum is the largest sum of magnitudes of one digit.
func (p *prepared) digits(reach int32, right []int32, sum func(d *digit) float64) {
	p.wide, p.right, p.exact = factors(mostOf(reach), right, sum)
	if !p.exact {
		p.wide, p.right = widths[0], cut(right, widths[0])
	}
}

// runner gives one of the node alone with digit j of the right factor, for factors of these shapes.
func (p *prepared) runner(c *computer, l *linear, j int, left, right []int) (*exec.Runner, error) {
	key := fmt.Sprint(j, left)
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.idle[key]; len(list) > 0 {
		p.idle[key] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	session := p.sessions[key]
	if session == nil {
		keep := func(name string) bool { return name != "alpha" && name != "beta" }
		x, w := tensor.New(tensor.Float32, left...), tensor.FromF32(p.right[j].values, right...)
		g, err := alone(l.g, l.node, []*tensor.Tensor{x, w}, []bool{false, l.weights != nil}, keep)
		if err != nil {
			return nil, err
		}
		if session, err = exec.New(g, exec.Options{Threads: c.threads, Float64: !p.exact}); err != nil {
			return nil, err
		}
		if p.sessions == nil {
			p.sessions, p.idle = map[string]*exec.Session{}, map[string][]*exec.Runner{}
		}
		p.sessions[key] = session
	}
	return session.NewRunner(), nil
}

// giveBack keeps a runner for the next sample.
func (p *prepared) giveBack(j int, left []int, run *exec.Runner) {
	key := fmt.Sprint(j, left)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[key] = append(p.idle[key], run)
}
