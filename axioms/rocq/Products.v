(* Products of any number of factors: theorems 1, 3 and 60. *)
From Lrp Require Import Rules.

(* A bracketing of factors.  A rule for products of two takes both values and the relevance of the
   product; [relevance] applies it from the root down and returns what each factor receives. *)
Inductive tree := Leaf (x : R) | Mul (a b : tree).

Fixpoint leaves (t : tree) : list R :=
  match t with Leaf x => [x] | Mul a b => leaves a ++ leaves b end.
Fixpoint value (t : tree) : R := match t with Leaf x => x | Mul a b => value a * value b end.
Definition rule := R -> R -> R -> R * R.
Fixpoint relevance (f : rule) (t : tree) (r : R) : list R :=
  match t with
  | Leaf _ => [r]
  | Mul a b => let (ra, rb) := f (value a) (value b) r in relevance f a ra ++ relevance f b rb
  end.

(* AttnLRP's rule for products is Eq. 3 for two factors. *)
Definition attnlrp (eps : R) : rule := fun x y r =>
  let m := eq3 eps 1 2 [[x; y]] r in (nth 0 m 0, nth 1 m 0).

(* The bracketing of a product that begins from the right. *)
Fixpoint comb (x : R) (xs : list R) : tree :=
  match xs with [] => Leaf x | y :: ys => Mul (Leaf x) (comb y ys) end.

Lemma leaves_comb x xs : leaves (comb x xs) = x :: xs.
Proof. revert x. induction xs; intros; simpl; [|rewrite IHxs]; reflexivity. Qed.
Lemma value_product t : value t = product (leaves t).
Proof. induction t; simpl; [|rewrite product_app, IHt1, IHt2]; ring. Qed.
Lemma halves x y r : x * y <> 0 -> attnlrp 0 x y r = (r / 2, r / 2).
Proof.
  intros H. unfold attnlrp, eq3, terms. simpl. rewrite push_0. f_equal; field;
    split; intros E; apply H; rewrite E; ring.
Qed.
Opaque attnlrp.

(* Theorem 1 is refuted: "Two implementations of y = x1 x2 x3, (x1 x2) x3 and x1 (x2 x3), get the
   same relevance."  Here are both witnesses at (2, 3, 4), where leave-one-out is 24 for every
   factor; then, for every number of factors above 2 and all nonzero factors, two bracketings that
   get different relevance. *)
Theorem theorem_1_gets_6_6_12_and_12_6_6 :
  let (a, b) := (Mul (Mul (Leaf 2) (Leaf 3)) (Leaf 4), Mul (Leaf 2) (Mul (Leaf 3) (Leaf 4))) in
  value a = 24 /\ relevance (attnlrp 0) a 24 = [6; 6; 12] /\
  value b = 24 /\ relevance (attnlrp 0) b 24 = [12; 6; 6] /\
  map (fun without => 24 - product without) [[0; 3; 4]; [2; 0; 4]; [2; 3; 0]] = [24; 24; 24].
Proof. simpl. rewrite !halves by lra. simpl. repeat split; repeat (f_equal; try lra); lra. Qed.

Theorem theorem_1_brackets_change_relevance xs r :
  (3 <= length xs)%nat -> product xs <> 0 -> r <> 0 ->
  exists a b, leaves a = xs /\ leaves b = xs /\ value a = value b /\
    relevance (attnlrp 0) a r <> relevance (attnlrp 0) b r.
Proof.
  destruct xs as [|x [|y [|w rest]]]; simpl; intros H N R0; try lia.
  exists (Mul (Leaf x) (comb y (w :: rest))), (Mul (Mul (Leaf x) (Leaf y)) (comb w rest)).
  assert (V : value (comb w rest) = w * product rest) by (rewrite value_product, leaves_comb; reflexivity).
  assert (X : x <> 0) by (intros E; apply N; rewrite E; ring).
  assert (Y : y <> 0) by (intros E; apply N; rewrite E; ring).
  assert (W : w * product rest <> 0) by (intros E; apply N; rewrite E; ring).
  simpl. rewrite !leaves_comb, V. repeat split; [ring|].
  rewrite !halves by auto using Rmult_integral_contrapositive_currified.
  simpl. intros E. injection E as E _. lra.
Qed.

(* Theorem 3: "Once nested products are merged, every bracketing of every ordering of n <= 5 factors
   gives each factor R/n."  Here for every n.  Merged is the list of all factors, by Eq. 3 for one
   product of n factors as epsilon -> 0. *)
Definition merged (t : tree) (r : R) : list R := eq3 0 1 (length (leaves t)) [leaves t] r.

Lemma equal_split xs r : xs <> [] -> product xs <> 0 ->
  eq3 0 1 (length xs) [xs] r = repeat (r / INR (length xs)) (length xs).
Proof.
  intros E N. unfold eq3, terms. simpl. rewrite app_nil_r, push_0.
  assert (L : INR (length xs) <> 0) by (apply not_0_INR; destruct xs; simpl; congruence).
  rewrite (map_ext _ (fun _ => r / INR (length xs))) by (intros; field; auto).
  generalize (r / INR (length xs)). clear. intros c. induction xs; simpl; f_equal; auto.
Qed.

Theorem theorem_3_merged_products_split_equally t xs r :
  Permutation (leaves t) xs -> product xs <> 0 ->
  value t = product xs /\ merged t r = repeat (r / INR (length xs)) (length xs).
Proof.
  intros P N. assert (V : product (leaves t) = product xs).
  { clear N. induction P; simpl; try rewrite IHP; try ring; congruence. }
  rewrite value_product. split; [exact V|]. unfold merged.
  rewrite <- (Permutation_length P). apply equal_split; [|congruence].
  clear. induction t; simpl; [discriminate|]. destruct (leaves t1); [congruence|discriminate].
Qed.

(* A local rule that conserves: of R, the left factor x of z gets R S(x, z), the right one the rest.
   It is invariant for n factors of a domain D if no bracketing changes what they receive. *)
Definition local (S : R -> R -> R) : rule := fun x y r =>
  let s := S x (x * y) in (r * s, r * (1 - s)).
Definition invariant (D : R -> Prop) (n : nat) (f : rule) : Prop := forall a b r,
  leaves a = leaves b -> length (leaves a) = n -> Forall D (leaves a) ->
  relevance f a r = relevance f b r.

Lemma sincov D n S x y w ws : invariant D n (local S) ->
  Forall D (x :: y :: w :: ws) -> length (x :: y :: w :: ws) = n ->
  let q := x * y in let z := q * (w * product ws) in S x q * S q z = S x z.
Proof.
  intros H F L q z. set (c := comb w ws). assert (C : leaves c = w :: ws) by apply leaves_comb.
  specialize (H (Mul (Mul (Leaf x) (Leaf y)) c) (Mul (Leaf x) (Mul (Leaf y) c)) 1).
  simpl in H. rewrite C, value_product, C in H. specialize (H eq_refl L F). simpl in H.
  replace (x * (y * (w * product ws))) with z in H by (unfold z, q; ring).
  injection H as H _. fold q z in H. lra.
Qed.
Lemma product_ones m : product (repeat 1 m) = 1.
Proof. induction m; simpl; [|rewrite IHm]; ring. Qed.
Lemma all_repeat (D : R -> Prop) x m : D x -> Forall D (repeat x m).
Proof. intros. now apply Forall_forall; intros y Y; apply repeat_spec in Y as ->. Qed.

(* Theorem 60: "A local rule for products of two positive factors that conserves is invariant under
   re-association only if S(x, q) S(q, z) = S(x, z) for its left shares; where none of them is 0,
   S(x, z) = phi(x)/phi(z), with phi(x) = S(x, p) for any fixed p."  Here invariance for any one
   number n of factors above 2 is enough. *)
Theorem theorem_60_invariance_is_sincovs_equation n S :
  (3 <= n)%nat -> invariant (Rlt 0) n (local S) ->
  (forall x q z, 0 < x -> 0 < q -> 0 < z -> S x q * S q z = S x z) /\
  (forall p, 0 < p -> (forall x, 0 < x -> S x p <> 0) ->
    forall x z, 0 < x -> 0 < z -> S x z = S x p / S z p).
Proof.
  intros N H. assert (E : forall x q z, 0 < x -> 0 < q -> 0 < z -> S x q * S q z = S x z).
  { intros x q z X Q Z. pose proof (sincov _ n S x (q / x) (z / q) (repeat 1 (n - 3)) H) as E.
    simpl in E. rewrite product_ones, repeat_length in E.
    replace (x * (q / x)) with q in E by (field; lra).
    replace (q * (z / q * 1)) with z in E by (field; lra).
    apply E; [|lia]. auto using Forall_cons, Rdiv_lt_0_compat, all_repeat, Rlt_0_1. }
  split; [exact E|]. intros p P O x z X Z. rewrite <- (E x z p X Z P). field. auto.
Qed.

(* Theorem 60, an impossibility: "No local rule for products of two that conserves is invariant
   under re-association, under the order of the factors and under every change of their units."
   Here for every number n of factors above 2, all of them above 1: there, shares by logarithms obey
   all but the last axiom. *)
Theorem theorem_60_no_rule_obeys_all_axioms n S :
  (3 <= n)%nat -> invariant (Rlt 1) n (local S) ->
  (forall x y, 1 < x -> 1 < y -> S x (x * y) = 1 - S y (y * x)) ->
  (forall x y u v, 1 < x -> 1 < y -> 1 < u * x -> 1 < v * y ->
    S (u * x) (u * x * (v * y)) = S x (x * y)) ->
  False.
Proof.
  intros N H order units. set (c := S 2 (2 * 2)).
  assert (K : forall x y, 1 < x -> 1 < y -> S x (x * y) = c).
  { intros x y X Y. unfold c. rewrite <- (units 2 2 (x / 2) (y / 2)) by lra. f_equal; field. }
  pose proof (sincov _ n S 2 2 2 (repeat 2 (n - 3)) H) as E. simpl in E.
  set (p := 2 * product (repeat 2 (n - 3))) in E.
  assert (P : 1 < p) by (unfold p; clear; induction (n - 3)%nat; simpl in *; lra).
  rewrite repeat_length, (K (2 * 2) p) in E by lra.
  rewrite (Rmult_assoc 2 2 p), (K 2 (2 * p)) in E by lra. fold c in E.
  assert (c * c = c) by (apply E; [|lia]; auto using Forall_cons, all_repeat with real).
  pose proof (order 2 2 ltac:(lra) ltac:(lra)) as O. fold c in O. nra.
Qed.
