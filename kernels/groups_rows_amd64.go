//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorGroupsRows lists the rows of products of groups and of combinations written in assembly.
func vectorGroupsRows() []Row {
	avx512vnni := func(f cpu.Features) bool { return f.AVX512VNNI }
	avxvnni := func(f cpu.Features) bool { return f.AVXVNNI }
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	groups8 := pairedRow(OpGroups8, "avx512vnni", avx512vnni, groups8AVX512VNNI[0][:], groups8AVX512VNNI[1][:])
	groups4 := pairedRow(OpGroups4, "avx512vnni", avx512vnni, groups4AVX512VNNI[0][:], groups4AVX512VNNI[1][:])
	return []Row{
		manyAMX(groups8), groups8,
		groupsRow(OpGroups8, "avx512", avx512, groups8AVX512[0][:]),
		groupsRow(OpGroups8, "avxvnni", avxvnni, groups8AVXVNNI[0][:]),
		groupsRow(OpGroups8, "avx2", avx2, groups8AVX2[0][:]),
		manyAMX(groups4), groups4,
		groupsRow(OpGroups4, "avx512", avx512, groups4AVX512[0][:]),
		groupsRow(OpGroups4, "avxvnni", avxvnni, groups4AVXVNNI[0][:]),
		groupsRow(OpGroups4, "avx2", avx2, groups4AVX2[0][:]),
		groupsRow(OpGroupsFloat8, "avx512", avx512, groupsFloat8AVX512[0][:]),
		groupsRow(OpGroupsFloat8, "avx2", avx2, []func(*groupTile){groupsFloat8AVX2}),
		groupsRow(OpGroupsFloat4, "avx512", avx512, groupsFloat4AVX512[0][:]),
		groupsRow(OpGroupsFloat4, "avx2", avx2, []func(*groupTile){groupsFloat4AVX2}),
		{Name: "quantize-groups-avx2", Op: OpQuantizeGroups, ISA: "avx2", runs: avx2, quantize: quantizeGroupsAVX2},
		{Name: "combine-avx512", Op: OpCombine, ISA: "avx512", MR: 4, runs: avx512,
			tile: func(t *tile) { combineAVX512[t.rows-1][t.strip.count-1](t) }},
		{Name: "combine-avx2", Op: OpCombine, ISA: "avx2", runs: avx2, tile: func(t *tile) { combineAVX2[t.rows-1][0](t) }},
	}
}
