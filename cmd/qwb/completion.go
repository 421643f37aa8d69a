package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qwb/graph/pattern"
	"qwb/internal/options"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
)

// offerChoices lets the shell complete the values of flags in c and below; of a flag that takes several, separated by commas, the last.
func (e *env) offerChoices(c *cobra.Command) {
	everyCommand(c, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			values, files := e.values(c, f.Name)
			_, several := f.Value.(pflag.SliceValue)
			if values == nil {
				return
			}
			_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				switch {
				case several:
					return listed(typed, values()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
				case files:
					return values(), cobra.ShellCompDirectiveDefault
				}
				return values(), cobra.ShellCompDirectiveNoFileComp
			}) // fails for a second one only
		})
		if f := c.Flags().Lookup("fp32"); f != nil {
			_ = c.RegisterFlagCompletionFunc("fp32", func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return listed(typed, selectors(args)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			})
		}
	})
}

// values are those that a flag of a command knows, each once, nil where it knows none; files says whether that of a file will do too.
func (e *env) values(c *cobra.Command, flag string) (values func() []string, files bool) {
	o := e.tables[c].Find(flag)
	if o == nil || o.Values == nil {
		return nil, false
	}
	return func() (list []string) {
		seen := map[string]bool{}
		for _, v := range o.Values() {
			if !seen[v] {
				list, seen[v] = append(list, v), true
			}
		}
		return list
	}, o.Files
}

// files completes names with these extensions.
func files(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

// selecting completes selectors of the plan that arguments name, or of the only one here.
func selecting(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return listed(typed, selectors(args)), cobra.ShellCompDirectiveNoSpace
}

// deciding completes what set takes: a selector, then properties.
func deciding(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if _, rest, err := planAndRest(args); err == nil && len(rest) > 0 {
		return settings(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return selecting(c, args, typed)
}

// listed completes the last name of a list with commas between.
func listed(typed string, names []string) []string {
	done := typed[:strings.LastIndexByte(typed, ',')+1]
	var list []string
	for _, name := range names {
		if !slices.Contains(strings.Split(done, ","), name) {
			list = append(list, done+name)
		}
	}
	return list
}

// selectors lists what a selector may be: names of the operators of the plan that args name, or of the only one in the current folder,
// their types, and the words that select.
func selectors(args []string) []string {
	list := []string{"first", "last", "depthwise", "type:", "pattern:"}
	for _, f := range pattern.Families {
		list = append(list, "pattern:"+strings.ToLower(f.Name))
	}
	file, _, err := planAndRest(args)
	if err != nil {
		return list
	}
	p, err := plan.Read(file)
	if err != nil {
		return list
	}
	var types, names []string
	for i := range p.Nodes {
		types = append(types, "type:"+p.Nodes[i].Op)
		names = append(names, strings.ReplaceAll(p.Nodes[i].Name, ",", `\,`))
	}
	slices.Sort(types)
	return slices.Concat(list, slices.Compact(types), names)
}

// settings completes KEY=VALUE of a decision.
func settings(typed string) []string {
	values := map[string][]string{"dispatcher": options.Dispatchers(), "observer": options.EveryObserver(),
		"domain": {string(decision.Int), string(decision.FP32), string(decision.FP16), string(decision.BF16), string(decision.TF32),
			string(decision.Weights)},
		"align": {"none", "output", "input", "large"}}
	key, _, given := strings.Cut(typed, "=")
	var list []string
	for _, p := range decision.All() {
		if !given {
			list = append(list, p.Name+"=")
		}
	}
	if given {
		for _, v := range values[key] {
			list = append(list, key+"="+v)
		}
	}
	return list
}
