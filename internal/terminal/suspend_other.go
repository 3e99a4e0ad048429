//go:build !unix

package terminal

import "context"

// Run returns when ctx ends: there is no Ctrl-Z here.
func (s *Screen) Run(ctx context.Context) { <-ctx.Done() }

func (s *Screen) isBackground() bool { return false }
