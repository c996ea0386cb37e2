(* Products of any number of factors: theorems 1a, 3, 60a and 60e. *)
Require Import Reals Lra Lia List Permutation.
From Lrp Require Import Rules.
Import ListNotations.
Open Scope R_scope.

(* A bracketing of factors.  A rule for products of two takes both values and the relevance of the
   product; [relevance] applies it from the root down and returns what each factor receives. *)
Inductive tree := Leaf (x : R) | Mul (a b : tree).

Fixpoint leaves (t : tree) : list R :=
  match t with Leaf x => [x] | Mul a b => leaves a ++ leaves b end.

Fixpoint value (t : tree) : R :=
  match t with Leaf x => x | Mul a b => value a * value b end.

Definition rule := R -> R -> R -> R * R.

Fixpoint relevance (f : rule) (t : tree) (r : R) : list R :=
  match t with
  | Leaf _ => [r]
  | Mul a b => let (to_a, to_b) := f (value a) (value b) r in relevance f a to_a ++ relevance f b to_b
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

(* Theorem 1a is refuted: "Two implementations of y = x1 x2 x3, (x1 x2) x3 and x1 (x2 x3), get the
   same relevance."  Here are both witnesses at (2, 3, 4), where leave-one-out is 24 for every
   factor; then, for every number of factors above 2 and all nonzero factors, two bracketings that
   get different relevance. *)
Theorem theorem_1a_left_gets_6_6_12 :
  let t := Mul (Mul (Leaf 2) (Leaf 3)) (Leaf 4) in value t = 24 /\ relevance (attnlrp 0) t 24 = [6; 6; 12].
Proof.
  simpl. rewrite !halves by lra. simpl. split; [lra|]. repeat (f_equal; try lra).
Qed.

Theorem theorem_1a_right_gets_12_6_6 :
  let t := Mul (Leaf 2) (Mul (Leaf 3) (Leaf 4)) in value t = 24 /\ relevance (attnlrp 0) t 24 = [12; 6; 6].
Proof.
  simpl. rewrite !halves by lra. simpl. split; [lra|]. repeat (f_equal; try lra).
Qed.

Lemma leave_one_out_gets_24_24_24 :
  map (fun without => product [2; 3; 4] - product without) [[0; 3; 4]; [2; 0; 4]; [2; 3; 0]] =
  [24; 24; 24].
Proof. simpl. repeat (f_equal; try lra). Qed.

Theorem theorem_1a_brackets_change_relevance xs r :
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

(* Theorem 3: "Once nested products are merged, every bracketing of every ordering of n <= 4 factors
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
   It is invariant for n factors if no bracketing of n positive factors changes their relevance. *)
Definition local (S : R -> R -> R) : rule := fun x y r =>
  let s := S x (x * y) in (r * s, r * (1 - s)).

Definition invariant (n : nat) (f : rule) : Prop := forall a b r,
  leaves a = leaves b -> length (leaves a) = n -> Forall (Rlt 0) (leaves a) ->
  relevance f a r = relevance f b r.

Lemma product_ones m : product (repeat 1 m) = 1.
Proof. induction m; simpl; [|rewrite IHm]; ring. Qed.

Lemma positive_ones m : Forall (Rlt 0) (repeat 1 m).
Proof. induction m; simpl; constructor; auto; lra. Qed.

Lemma invariant_sincov n S : (3 <= n)%nat -> invariant n (local S) ->
  forall x q z, 0 < x -> 0 < q -> 0 < z -> S x q * S q z = S x z.
Proof.
  intros N H x q z X Q Z.
  assert (Y : 0 < q / x) by (apply Rdiv_lt_0_compat; lra).
  assert (W : 0 < z / q) by (apply Rdiv_lt_0_compat; lra).
  set (c := comb (z / q) (repeat 1 (n - 3))).
  assert (C : leaves c = z / q :: repeat 1 (n - 3)) by apply leaves_comb.
  assert (V : value c = z / q) by (rewrite value_product, C; simpl; rewrite product_ones; ring).
  specialize (H (Mul (Mul (Leaf x) (Leaf (q / x))) c) (Mul (Leaf x) (Mul (Leaf (q / x)) c)) 1).
  simpl in H. rewrite C, V in H. simpl in H. rewrite repeat_length in H.
  replace (x * (q / x)) with q in H by (field; lra).
  replace (q * (z / q)) with z in H by (field; lra).
  replace (x * (q / x * (z / q))) with z in H by (field; lra).
  specialize (H eq_refl ltac:(lia) ltac:(repeat constructor; auto using positive_ones)).
  injection H as H _. lra.
Qed.

(* Theorem 60a: "A local rule for products of two positive factors that conserves is invariant under
   re-association only if S(x, q) S(q, z) = S(x, z) for its left shares; where none of them is 0,
   S(x, z) = phi(x)/phi(z), with phi(x) = S(x, p) for any fixed p."  Here invariance for any one
   number n of factors above 2 is enough. *)
Theorem theorem_60a_invariance_is_sincovs_equation n S :
  (3 <= n)%nat -> invariant n (local S) ->
  (forall x q z, 0 < x -> 0 < q -> 0 < z -> S x q * S q z = S x z) /\
  (forall p, 0 < p -> (forall x, 0 < x -> S x p <> 0) ->
    forall x z, 0 < x -> 0 < z -> S x z = S x p / S z p).
Proof.
  intros N H. pose proof (invariant_sincov n S N H) as E. split; [exact E|].
  intros p P O x z X Z. rewrite <- (E x z p X Z P). field. auto.
Qed.

(* Theorem 60e, an impossibility: "No local rule for products of two that conserves is invariant
   under re-association, under the order of the factors and under every change of their units."
   Here for every number n of factors above 2. *)
Theorem theorem_60e_no_rule_obeys_all_axioms n S :
  (3 <= n)%nat -> invariant n (local S) ->
  (forall x y, 0 < x -> 0 < y -> S x (x * y) = 1 - S y (y * x)) ->
  (forall x y u v, 0 < x -> 0 < y -> 0 < u -> 0 < v -> S (u * x) (u * x * (v * y)) = S x (x * y)) ->
  False.
Proof.
  intros N H order units. pose proof (invariant_sincov n S N H 1 1 1) as E.
  specialize (order 1 1). replace (1 * 1) with 1 in order by ring.
  assert (S 1 1 = 1 - S 1 1) by (apply order; lra).
  assert (S 1 1 * S 1 1 = S 1 1) by (apply E; lra). nra.
Qed.
