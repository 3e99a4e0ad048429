//go:build integration

package skip

const integration = true
