//go:build !amd64 || purego

package kernels

// vectorGroupsRows lists the rows of products of groups written in assembly; this build has none.
func vectorGroupsRows() []Row { return nil }
