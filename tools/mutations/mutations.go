package main

var mutations = []mutation{
	// 1: memory is bounded whoever asks
	{"bodies under way share a budget", "webhook/bodies.go", "if queue.Acquire(ctx, 0, room) != nil {", "if room > 1 && false {", "./webhook", "TestBodiesAtOnce|TestNoRoom"},
	{"large bodies do not keep small ones waiting", "webhook/bodies.go", "queue = of.large", "queue = of.small", "./webhook", "TestBodiesAtOnce|TestNoRoom"},
	{"what is announced takes no room", "webhook/bodies.go", "if whole, err := in.read(smallBody+1,", "if err := acquire(r.Context(), of.turn, 1); err != nil {\n\t\treturn nil, err\n\t}\n\tdefer of.turn.Release(1)\n\tif whole, err := in.read(smallBody+1,", "./webhook", "TestTrickle"},
	{"a body that trickles gives its turn up", "webhook/bodies.go", "return start.Add(pause +", "return start.Add(bodyTime +", "./webhook", "TestTrickle"},
	{"a body that does not begin is given up", "webhook/bodies.go", "return start.Add(firstByte)", "return start.Add(bodyTime)", "./webhook", "TestTrickle"},
	{"known senders have room of their own", "webhook/bodies.go", "of = b.known", "of = b.others", "./webhook", "TestTrickle"},
	{"who waits for room is counted", "internal/fair/fair.go", "n > q.each || q.waiting > q.all", "n > q.each", "./internal/fair", "TestBounded"},
	{"who waits for room is counted for each", "internal/fair/fair.go", "n > q.each || q.waiting > q.all", "q.waiting > q.all", "./internal/fair", "TestBounded"},
	{"connections are bounded", "internal/port/listener.go", "if !c.first && l.shared >= l.limits.Connections {", "if false {", "./internal/port", "TestConnections"},
	{"connections of an address are bounded", "internal/port/listener.go", "if len(own) >= most {", "if false {", "./internal/port", "TestConnections"},
	{"who has most connections gives one up", "internal/port/listener.go", "victim == nil || len(l.open[victim.address]) <= len(own)+1", "victim != nil", "./internal/port", "TestConnections"},
	{"known senders connect in any case", "internal/port/listener.go", "if !c.first && l.shared", "if l.shared", "./internal/port", "TestConnections"},
	{"headers are bounded", "internal/port/port.go", "MaxHeaderBytes:    l.Header,", "", "./internal/port", "TestConnections"},
	{"what does not arrive is given up", "internal/port/port.go", "ReadTimeout:       arrival,", "", "./internal/port", "TestArrival"},
	{"values are counted before they are decoded", "webhook/request.go", "if rawjson.Values(m.spec, maxValues+1) > maxValues {", "if false {", "./webhook", "TestHugeReviews"},
	{"labels are counted before they are decoded", "webhook/request.go", "if len(m.labels) == maxLabels {", "if false {", "./webhook", "TestHugeReviews"},
	// 2: forged reviews change nothing
	{"an override is reported once it is in force", "webhook/override.go", "c.Confirms = func(set mirrors.Set) bool { return o.req.isMadeIn(set) && o.isIn(set) }", "c.Confirms = func(mirrors.Set) bool { return true }\n\to.announcement.stored(true)", "./webhook", "TestForgedOverride"},
	{"only the uid of the review confirms it", "webhook/request.go", "return o == nil || o.GetUID() == \"\" || o.GetUID() == r.put.uid", "return o == nil || o.GetUID() != \"-\"", "./webhook", "TestForgedOverride|TestSlowedDown"},
	{"who sends what never comes is slowed down", "webhook/recent/senders.go", "if pause := sender.pause(now); pause > 0 {", "if pause := sender.pause(now); pause > time.Hour {", "./webhook/recent", "TestSlowed"},
	{"what a suspect sends counts for seconds", "webhook/recent/sweep.go", "limit = min(limit, suspectTime)", "limit = max(limit, suspectTime)", "./webhook/recent", "TestSuspectsCountShortly"},
	{"who is known is known to all replicas", "webhook/recent/sweep.go", "e.senders.vouch(c.known...)", "", "./webhook/recent", "TestRemembered"},
	{"strangers are in no dry run", "webhook/recent/recent.go", "(p.stranger || p.own != nil && !p.own.admitted)", "p.own != nil && !p.own.admitted", "./webhook/recent", "TestStrangersInTheWay"},
	{"what cannot be stored any more is in nobody's way", "webhook/recent/sweep.go", "for _, limit := range []time.Duration{storingMargin, e.storing} {", "for _, limit := range []time.Duration{} {", "./webhook/recent", "TestStrangersInTheWay"},
	{"known senders go first", "webhook/recent/senders.go", "case s.known && failed < trusted:\n\t\treturn RankKnown", "case s.known && failed < trusted:\n\t\treturn rankFresh", "./webhook/recent", "TestKnownSenders"},
	{"strangers share a part of the list", "webhook/recent/senders.go", "sender.pending++\n\treturn 1, nil", "sender.pending++\n\treturn 0, nil", "./webhook/recent", "TestStrangersShare"},
	// 3: the Lease cannot be tricked
	{"an edit is added to the object that was looked at", "webhook/recent/lease.go", "lease.UID, lease.ResourceVersion = from.id(), from.version", "lease.UID = from.id()", "./webhook/recent", "TestAddsToWhatItSaw"},
	{"an edit is added only if none came since", "webhook/recent/recent.go", "if e.count != count || e.latest.absent || e.settled(e.latest) != nil {", "if e.latest.absent || e.settled(e.latest) != nil {", "./webhook/recent", "TestManyReplicas"},
	{"what is being added is not written by others", "webhook/recent/recent.go", "(p.own.admitted || p.claim != 0 || p == adding) && ", "", "./webhook/recent", "TestManyReplicas"},
	{"what has gone from the list is put back", "webhook/recent/sweep.go", "entries := e.list(now, nil)", "entries := now.entries", "./webhook/recent", "TestEveryVersionCounts"},
	{"every version of the list counts", "webhook/recent/sweep.go", "\te.take(c, before, now)\n", "\tif before.version == \"\" || len(c.entries) == 0 {\n\t\te.take(c, before, now)\n\t}\n", "./webhook/recent", "TestShared|TestEveryVersionCounts"},
	{"what is followed anew is not relied on at once", "webhook/recent/sweep.go", "e.link.settled = time.Now().Add(settleTime)", "e.link.settled = time.Now()", "./webhook/recent", "TestBeginsAnew"},
	{"nothing is admitted while entries may be overlooked", "webhook/recent/sweep.go", "e.overflow = now\n", "", "./webhook/recent", "TestOverflow"},
	{"without the right to the Lease others are waited for", "webhook/recent/sweep.go", "e.link.worked && left > 0", "false && left > 0", "./webhook/recent", "TestRightLost"},
	{"garbage is waited for once", "webhook/recent/trouble.go", "if len(begun) >= mostWaits[why] {", "if false {", "./webhook/recent", "TestUnreadable"},
	{"what a later version wrote is kept", "webhook/recent/recent.go", "!over || en.newer", "!over", "./webhook/recent", "TestUnreadable"},
	{"no removal does without the list", "webhook/together.go", "return j.edits().Add(ctx, view, j.change(r))", "err := j.edits().Add(ctx, view, j.change(r))\n\tif j.request.isRemoval() {\n\t\treturn nil\n\t}\n\treturn err", "./webhook", "TestNoWayAroundTheLease"},
	// 4: blind is not fine
	{"a source with an error is blind at once", "inventory/follow/status.go", "return s.Stale || s.IsReadable() && s.Err != nil", "return s.Stale", "./inventory/cluster", "TestInventorySaysWhenAWatchIsBroken"},
	{"what never ran has no secrets", "policy/evidence.go", "c.OwnPullSecret && r.neverRanIn(c.Namespace):", "false:", "./policy", "TestNeverRan"},
	{"what has run keeps them", "policy/evidence.go", "&& c.Namespace == namespace && !c.NeverRan", "&& c.Namespace == namespace && false", "./policy", "TestNeverRan"},
	{"it takes a list of all pods", "policy/placement.go", "listed := known.PodsListed && ", "listed := true || ", "./policy", "TestNeverRan"},
	// 5: answers come before the deadline
	{"time is kept for deciding and saying why", "review/review.go", "looking, cancel := KeepBack(ctx, decidingShare*time.Since(planning))", "looking, cancel := KeepBack(ctx, 0*time.Since(planning))", "./review", "TestTimeToDecide"},
	{"no decision is waited for that comes late", "webhook/late.go", "timer := time.NewTimer(grace)", "timer := time.NewTimer(time.Hour)", "./webhook", "TestLateDecision"},
	{"what is decided too late admits nothing", "webhook/together.go", "if !j.request.commit() {", "if false {", "./webhook", "TestLateDecision"},
	{"a request counts until nobody decides on it", "webhook/late.go", "users.Store(2)", "users.Store(1)", "./webhook", "TestLateDecision"},
	// 6: an override is its author's
	{"a code is for a user", "webhook/overridecode.go", "r.UserInfo.Username, operation", "\"\", operation", "./webhook", "TestOverrideIsItsAuthors"},
	{"the code of a creation ends", "webhook/overridecode.go", "return time.Now().Unix() / int64(creationPeriod/time.Second)", "return 0", "./webhook", "TestOverrideOfACreationEnds"},
	// 7: files that hang
	{"only regular files are read", "internal/mounted/mounted.go", "if !info.Mode().IsRegular() {", "if !info.Mode().IsRegular() && false {", "./internal/mounted", "TestRead"},
	{"a named pipe is opened without waiting", "internal/mounted/mounted.go", "os.O_RDONLY|syscall.O_NONBLOCK", "os.O_RDONLY|0*syscall.O_NONBLOCK", "./internal/mounted", "TestRead"},
	{"a reading that hangs is not waited for", "internal/mounted/mounted.go", "timer := time.NewTimer(timeLimit)", "timer := time.NewTimer(1000 * timeLimit)", "./internal/mounted", "TestHangs"},
	// 8: switched off, and nobody says so
	{"matchConditions are compared", "inventory/serving/registration.go", "c.matchPolicy, c.matchConditions, ", "c.matchPolicy, ", "./inventory/serving", "TestRegistration"},
	{"selectors are compared", "inventory/serving/registration.go", "c.objectSelector, c.namespaceSelector, ", "", "./inventory/serving", "TestRegistration"},
	{"failurePolicy is compared", "inventory/serving/registration.go", "c.rules, c.failurePolicy, ", "c.rules, ", "./inventory/serving", "TestRegistration"},
	{"the service is compared", "inventory/serving/registration.go", "c.versions, c.client,", "c.versions,", "./inventory/serving", "TestRegistration"},
	// 9: the same effect by other doors
	{"changed files of MachineConfigs are reported", "inventory/cluster/unreviewed.go", "if !slices.EqualFunc(before[name], s.named(name), sameFile) {", "if false {", "./inventory/cluster", "TestFileSink"},
	{"what pools are to get is compared", "review/rollouts/target.go", "r.options.Differs(d)", "_ = d", "./review/rollouts", "TestFollowerComparesTargets"},
}
