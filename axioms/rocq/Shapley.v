(* Shapley values and Integrated Gradients of any number of inputs, from zero: theorem 4. *)
From Lrp Require Import Rules Products.

(* A coalition says of every input whether it is present; absent inputs are 0. *)
Fixpoint coalitions (n : nat) : list (list bool) :=
  match n with
  | O => [[]]
  | S m => map (cons true) (coalitions m) ++ map (cons false) (coalitions m)
  end.
Fixpoint present (c : list bool) (xs : list R) : list R :=
  match c, xs with b :: c', x :: xs' => (if b then x else 0) :: present c' xs' | _, _ => [] end.
Definition size (c : list bool) : nat := length (filter (fun b => b) c).

(* The Shapley value of the input x of f that stands between the inputs before and after it: over
   all coalitions of the others, |S|! (n - |S| - 1)!/n! times what f gains by x. *)
Definition weight (n s : nat) : R := INR (fact s) * INR (fact (n - s - 1)) / INR (fact n).
Definition shapley (f : list R -> R) (before : list R) (x : R) (after : list R) : R :=
  let others := before ++ after in
  sum (map (fun c =>
    let ys := present c others in
    let (b, a) := (firstn (length before) ys, skipn (length before) ys) in
    weight (S (length others)) (size c) * (f (b ++ x :: a) - f (b ++ 0 :: a)))
  (coalitions (length others))).

(* v is the Integrated Gradient of x: x times the integral, for t from 0 to 1, of the partial
   derivative g(t) of f by this input at t times all inputs. *)
Definition integrated_gradient (f : list R -> R) (before : list R) (x : R) (after : list R) (v : R) :=
  exists (g : R -> R) (pr : Riemann_integrable g 0 1),
    (forall t, 0 <= t <= 1 ->
      derivable_pt_lim (fun u => f (map (Rmult t) before ++ u :: map (Rmult t) after)) (t * x) (g t)) /\
    v = x * RiemannInt pr.

(* There is at most one such v. *)
Lemma integrated_gradient_unique f before x after v w :
  integrated_gradient f before x after v -> integrated_gradient f before x after w -> v = w.
Proof.
  intros [g [pr [G ->]]] [h [qr [H ->]]]. f_equal. apply RiemannInt_P18; [lra|].
  intros t T. exact (uniqueness_limite _ _ _ _ (G t ltac:(lra)) (H t ltac:(lra))).
Qed.

Lemma product_around b x a : product (b ++ x :: a) = x * product (b ++ a).
Proof. rewrite !product_app. simpl. ring. Qed.

(* Of a product, only the full coalition has a value. *)
Lemma full_coalition (w : nat -> R) xs :
  sum (map (fun c => w (size c) * product (present c xs)) (coalitions (length xs))) =
  w (length xs) * product xs.
Proof.
  revert w. induction xs as [|x xs IH]; intros w; simpl; [unfold size; simpl; ring|].
  rewrite map_app, sum_app, !map_map.
  rewrite (map_ext _ (fun c => w (S (size c)) * product (present c xs) * x))
    by (intros; unfold size; simpl; ring). rewrite sum_scale, (IH (fun s => w (S s))).
  rewrite (map_ext _ (fun _ : list bool => 0)) by (intros; simpl; ring). rewrite sum_zero. ring.
Qed.

Lemma weight_full n : weight (S n) n = / INR (S n).
Proof.
  unfold weight. replace (S n - n - 1)%nat with O by lia. rewrite fact_simpl, mult_INR.
  change (INR (fact 0)) with 1. field. auto using INR_fact_neq_0, not_0_INR.
Qed.

Lemma shapley_product before x after : shapley product before x after =
  product (before ++ x :: after) / INR (length (before ++ x :: after)).
Proof.
  unfold shapley. rewrite (map_ext _ (fun c =>
    weight (S (length (before ++ after))) (size c) * product (present c (before ++ after)) * x))
    by (intros; rewrite !product_around, firstn_skipn; ring).
  rewrite sum_scale, full_coalition, weight_full, product_around.
  rewrite !app_length. simpl length. rewrite Nat.add_succ_r. unfold Rdiv. ring.
Qed.

Lemma product_scaled t l : product (map (Rmult t) l) = t ^ length l * product l.
Proof. induction l; simpl; [|rewrite IHl]; ring. Qed.

(* The integral of the derivative of k t^n from 0 to 1. *)
Lemma power_integral k n : exists (g : R -> R) (pr : Riemann_integrable g 0 1),
  (forall t, g t = INR (S n) * t ^ n * k) /\ RiemannInt pr = k.
Proof.
  assert (d : derivable (fun t => k * t ^ S n)) by exact (derivable_scal _ k (derivable_pow (S n))).
  assert (G : forall t, derive _ d t = INR (S n) * t ^ n * k).
  { intros t. unfold derive. apply derive_pt_eq_0.
    replace (INR (S n) * t ^ n * k) with (k * (INR (S n) * t ^ pred (S n))) by (simpl pred; ring).
    exact (derivable_pt_lim_scal (fun u => u ^ S n) k t _ (derivable_pt_lim_pow t (S n))). }
  assert (c : continuity (derive _ d)).
  { intros t. apply (continuity_pt_locally_ext (fun t => k * INR (S n) * t ^ n) _ 1); [lra| |].
    - intros. rewrite G. ring.
    - apply (continuity_scal (fun t => t ^ n)). apply derivable_continuous, derivable_pow. }
  assert (pr : Riemann_integrable (derive _ d) 0 1)
    by (apply continuity_implies_RiemannInt; [lra|intros; apply c]).
  exists (derive _ d), pr. split; [exact G|].
  etransitivity; [exact (FTC_Riemann (mkC1 c) pr)|]. simpl. rewrite pow1. ring.
Qed.

Lemma integrated_gradient_product before x after : integrated_gradient product before x after
  (product (before ++ x :: after) / INR (length (before ++ x :: after))).
Proof.
  set (n := length (before ++ after)). set (p := product (before ++ after)).
  destruct (power_integral (p / INR (S n)) n) as [g [pr [G I]]]. exists g, pr. split.
  - intros t _. rewrite G.
    replace (INR (S n) * t ^ n * (p / INR (S n))) with (t ^ n * p * 1)
      by (field; apply not_0_INR; lia).
    apply (derivable_pt_lim_locally_ext (fun u => t ^ n * p * u) _ _ (t * x - 1) (t * x + 1)); [lra| |].
    + intros u _. rewrite product_around, <- map_app, product_scaled. fold n p. ring.
    + apply (derivable_pt_lim_scal id), derivable_pt_lim_id.
  - rewrite I, product_around. fold p. rewrite app_length. simpl length. rewrite Nat.add_succ_r.
    rewrite <- app_length. fold n. unfold Rdiv. ring.
Qed.

(* Theorem 4: "The merged split of a product of n <= 4 factors is its Shapley value and its
   Integrated Gradients, both from the zero baseline."  Here for every n, at every factor x. *)
Theorem theorem_4_merged_split_is_shapley_and_integrated_gradients before x after :
  let xs := before ++ x :: after in
  let share := nth (length before) (eq3 0 1 (length xs) [xs] (product xs)) 0 in
  product xs <> 0 ->
  share = product xs / INR (length xs) /\ share = shapley product before x after /\
  integrated_gradient product before x after share.
Proof.
  intros xs share N. assert (E : share = product xs / INR (length xs)).
  { unfold share. rewrite equal_split; [|unfold xs; destruct before; discriminate|exact N].
    eapply repeat_spec, nth_In. rewrite repeat_length. unfold xs. rewrite app_length. simpl. lia. }
  rewrite shapley_product, E. repeat (split; [reflexivity|]). apply integrated_gradient_product.
Qed.
