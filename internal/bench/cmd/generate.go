package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/language/decode/gpu"
	"qwb/internal/bench"
	"qwb/internal/options"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
)

// benchGenerateOptions are the arguments of bench generate.
type benchGenerateOptions struct {
	bench.Options
	file    string
	backend string // floatBackends
	weights decode.Weights
	threads int
	prompt  int
}

// benchGenerateReport is what bench generate --json prints.
type benchGenerateReport struct {
	Machine    machineInfo `json:"machine"`
	Model      string      `json:"model"`
	Backend    string      `json:"backend"` // the kernel row of products
	Threads    int         `json:"threads"`
	Parameters int64       `json:"parameters"`
	TokenBytes int64       `json:"bytes_per_token"` // of weights

	Decode struct {
		bench.Timing
		TokensPerSecond float64     `json:"tokens_per_second"`
		Best            float64     `json:"best_tokens_per_second"`
		GBps            float64     `json:"gbps"`
		ReadGBps        float64     `json:"read_gbps"`          // of a buffer of as many bytes, in the same rounds
		Share           bench.Ratio `json:"share_of_bandwidth"` // round by round
		BestShare       float64     `json:"best_share_of_bandwidth"`
	} `json:"decode"`
	Prefill struct {
		bench.Timing
		Tokens          int     `json:"tokens"`
		TokensPerSecond float64 `json:"tokens_per_second"`
		GOPS            float64 `json:"gops"`
		ShareOfPeak     float64 `json:"share_of_peak"` // of integer multiply-adds; of float ones for a float model
	} `json:"prefill"`
	PeakRSS int64 `json:"peak_rss_bytes"`
}

func newBenchGenerate(e *Host) *cobra.Command {
	var threads int
	var asJSON bool
	var o benchGenerateOptions
	return e.Takes(&cobra.Command{
		Use:     "generate CHECKPOINT",
		Short:   "Time the decoding of a language model, compared with the memory bandwidth",
		Example: "  qwb bench generate stories15M.bin",
		Long: `Generate measures three things in turn: decoding (one token after the other, each the most likely one), the
tokens of a prompt (all at once), and reading a buffer. The buffer has as many bytes as the weights that one
token reads; as many threads read it.

Memory limits decoding. Its share is the weight bytes that a token reads, divided by its time, divided by the
bandwidth of the buffer in the same round. Keys and values are not counted. The best share compares the
fastest round of each, for machines that are not quiet. Compute limits the prompt: its share is relative to
the fastest multiply-add loop.

On a GPU (--backend cuda) the peaks are those of the device: reading, and dp4a or float multiply-adds. They
are measured once before. --backend ptx interprets GPU kernels: ignore its times.

qwb bench checkpoint writes models to measure.`,
		Args: exactly(1, "one checkpoint"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Options, err = benchOptions(o.Options); err != nil {
				return err
			}
			if o.prompt < 1 {
				return qwb.Usagef("--prompt %d: at least one token", o.prompt)
			}
			o.file, o.threads = args[0], threads
			r, err := e.benchGenerate(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			return e.printBenchGenerate(r)
		},
	}, slices.Concat(options.Threads(&threads), options.JSON(&asJSON),
		options.Table{
			{Name: "group-size", At: &o.weights.Group,
				Help: "quantize float weights; this many consecutive weights share one scale (0: do not quantize)"},
			{Name: "bits", At: &o.weights.Bits, Default: 8, Values: func() []string { return []string{"8", "4"} },
				Help: "number of bits for --group-size: 8 or 4"},
			{Name: "prompt", At: &o.prompt, Default: 128, Help: "number of tokens of the prompt"},
		},
		options.FloatBackend(&o.backend, "backend that runs the model: "), rounds(&o.Options, 7, 300*time.Millisecond)))
}

// decodeSpan is how many positions a text has before the next one is begun: the time of a token includes attention to half as many.
const decodeSpan = 64

func (e *Host) benchGenerate(ctx context.Context, o benchGenerateOptions) (*benchGenerateReport, error) {
	m, err := qwb.OpenCheckpoint(o.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	if err := qwb.CheckFloatBackend(o.backend); err != nil {
		return nil, err
	}
	options := decode.Options{Threads: o.threads, Weights: o.weights}
	var device *cuda.Device
	if o.backend != qwb.FloatCPU {
		if device, err = e.OpenDevice(o.backend); err != nil {
			return nil, err
		}
		defer func() { _ = device.Close() }() // what failed before is told
		options.Device = gpu.On(device)
	}
	engine, err := decode.New(ctx, m, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = engine.Close() }()
	r := &benchGenerateReport{Machine: thisMachine(), Model: o.file, Threads: o.threads, Parameters: m.Parameters(),
		TokenBytes: engine.TokenBytes()}
	r.Prefill.Tokens = min(o.prompt, m.Context)
	integers := o.weights.Group > 0 || m.Tensor(checkpoint.Classifier, -1).Quantized()
	progress, finish := e.progress("bench", o.Rounds)
	defer finish()
	o.Progress = progress
	token, prompt := decodeToken(engine, min(decodeSpan, m.Context)), prefillTokens(engine, r.Prefill.Tokens)
	work := 2 * float64(matrixParameters(&m.Config)) * float64(r.Prefill.Tokens)
	if device != nil {
		err = r.onDevice(ctx, o, device, token, prompt, work, integers)
	} else {
		err = r.onProcessor(ctx, o, token, prompt, work, integers)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", o.file, err)
	}
	r.Prefill.GOPS = work / r.Prefill.Seconds / 1e9
	r.PeakRSS = e.PeakMemory()
	return r, nil
}

// onProcessor times a token and a prompt in turn with the peaks of the processor.
func (r *benchGenerateReport) onProcessor(ctx context.Context, o benchGenerateOptions, token, prompt bench.Work, work float64,
	integers bool) error {
	op, peak := kernels.OpGemm, kernels.PeakFloat
	if integers {
		op, peak = kernels.OpGroups8, kernels.PeakInteger
	}
	r.Backend = kernels.Select(cpu.Detect()).Rows()[op].Name
	read, bytes, _ := bench.ReadPeak(cpu.Detect(), int(r.TokenBytes), o.threads)
	compute, ops, _ := bench.ComputePeak(cpu.Detect(), peak, o.threads)
	s, err := bench.Measure(ctx, o.Options, token, read, prompt, compute)
	if err != nil {
		return err
	}
	r.timings(s.Timing(0), s.Timing(2))
	d, reading, size := &r.Decode, s.Timing(1), float64(r.TokenBytes)
	d.ReadGBps = bytes / reading.Seconds / 1e9
	over := s.Ratio(1, 0)
	d.Share = bench.Ratio{Median: over.Median * size / bytes, Min: over.Min * size / bytes, Max: over.Max * size / bytes}
	d.BestShare = size / d.Min / (bytes / reading.Min)
	r.Prefill.ShareOfPeak = s.Ratio(3, 2).Median * work / ops
	return nil
}

// onDevice times a token and a prompt in turn; the peaks of the device were measured before.
func (r *benchGenerateReport) onDevice(ctx context.Context, o benchGenerateOptions, d *cuda.Device, token, prompt bench.Work, work float64,
	integers bool) error {
	peaks, err := cuda.MeasurePeaks(d)
	if err != nil {
		return err
	}
	s, err := bench.Measure(ctx, o.Options, token, prompt)
	if err != nil {
		return err
	}
	r.Backend = d.Name
	r.timings(s.Timing(0), s.Timing(1))
	t := &r.Decode
	share := func(seconds float64) float64 { return float64(r.TokenBytes) / seconds / peaks.Read }
	t.ReadGBps = peaks.Read / 1e9
	t.Share = bench.Ratio{Median: share(t.Seconds), Min: share(t.Max), Max: share(t.Min)}
	t.BestShare = t.Share.Max
	ops := peaks.FMA
	if integers {
		ops = peaks.DP4A // what products in groups are made of
	}
	r.Prefill.ShareOfPeak = work / r.Prefill.Seconds / ops
	return nil
}

// timings keeps how long a token and a prompt took.
func (r *benchGenerateReport) timings(token, prompt bench.Timing) {
	d, p := &r.Decode, &r.Prefill
	d.Timing, p.Timing = token, prompt
	d.TokensPerSecond, d.Best = 1/d.Seconds, 1/d.Min
	d.GBps = float64(r.TokenBytes) / d.Seconds / 1e9
	p.TokensPerSecond = float64(p.Tokens) / p.Seconds
}

// matrixParameters counts the elements of the matrices that every token is multiplied by; of a prompt only the last token meets the
// classifier.
func matrixParameters(c *checkpoint.Config) int64 {
	var n int64
	for _, p := range c.Parts() {
		if rows, cols := c.Shape(p.Role); p.Layer >= 0 && !p.Role.Vector() {
			n += int64(rows) * int64(cols)
		}
	}
	return n
}

// decodeToken is a work that decodes one token.
func decodeToken(engine *decode.Engine, span int) bench.Work {
	batch := []decode.Sequence{{Cache: decode.NewCache(&engine.Config), Tokens: []int{engine.BOS}, Want: 1}}
	return func(ctx context.Context) error {
		if batch[0].Cache.Len() == span {
			batch[0].Cache.Clear()
			batch[0].Tokens[0] = engine.BOS
		}
		logits, err := engine.Forward(ctx, batch)
		if err == nil {
			batch[0].Tokens[0] = decode.Largest(logits)
		}
		return err
	}
}

// prefillTokens is a work that runs a prompt of n tokens.
func prefillTokens(engine *decode.Engine, n int) bench.Work {
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = i * 7919 % engine.Vocab
	}
	batch := []decode.Sequence{{Cache: decode.NewCache(&engine.Config), Tokens: tokens, Want: 1}}
	return func(ctx context.Context) error {
		batch[0].Cache.Clear()
		_, err := engine.Forward(ctx, batch)
		return err
	}
}

func (e *Host) printBenchGenerate(r *benchGenerateReport) error {
	e.printMachine(r.Machine, r.Threads)
	d, p := &r.Decode, &r.Prefill
	fmt.Fprintf(e.Stdout, "%s: %.1f million parameters, %.1f MB of weights a token, %s\n\n", r.Model, float64(r.Parameters)/1e6,
		float64(r.TokenBytes)/1e6, r.Backend)
	w := table(e.Stdout)
	fmt.Fprintln(w, "\ttokens/s\tspeed\tof\tshare\tleast\tmost\tbest\t\t")
	fmt.Fprintf(w, "decode\t%.1f\t%.1f GB/s\t%.1f GB/s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t%s\t\n", d.TokensPerSecond, d.GBps, d.ReadGBps,
		100*d.Share.Median, 100*d.Share.Min, 100*d.Share.Max, 100*d.BestShare, quietness(d.Timing))
	fmt.Fprintf(w, "prompt of %d\t%.1f\t%.1f GOPS\t\t%.1f %%\t\t\t\t%s\t\n", p.Tokens, p.TokensPerSecond, p.GOPS, 100*p.ShareOfPeak,
		quietness(p.Timing))
	return w.Flush()
}
