// Package proof finds the budgets that may refuse an eviction for good: it proves of all others that no course of a rollout stalls
// for them, whatever nodes the scheduler chooses and in whatever order things happen.
//
//	blocked := proof.New(cluster).BlockedBudgets(assumption)
//
// It plays nothing, as package simulation does, which imports it. A budget may be found that no course comes to.
// It imports scheduling and what that rests on.
//
// In capacity is what nodes have left for a pod, in nodesearch whether it is sure to find one of them, and in blockedbudget what
// that makes of a budget.
package proof
