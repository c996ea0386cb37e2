(* BERT of any number of layers, tokens, heads, channels and hidden units: theorem 25d. *)
Require Import Reals Lra Lia List.
From Lrp Require Import Rules Attention Conservation.
Import ListNotations.
Open Scope R_scope.

(* The numbers of layer l: of a token t and a channel c, or of a head h as well; logits and attention
   weights are of two tokens t and s. *)
Inductive number :=
| Stream (l t c : nat) | Query (l h t c : nat) | Key (l h t c : nat) | Value (l h t c : nat)
| Logit (l h t s : nat) | Weight (l h t s : nat) | Read (l h t c : nat) | Attended (l t c : nat)
| Sum1 (l t c : nat) | Norm1 (l t c : nat) | Up (l t c : nat) | Active (l t c : nat)
| Down (l t c : nat) | Sum2 (l t c : nat).

Lemma number_dec (i j : number) : {i = j} + {i <> j}.
Proof. decide equality; apply Nat.eq_dec. Defined.

Section Bert.
Variables tokens width heads size hidden : nat.
Variable scale : R. (* 1/sqrt(size) in the logits *)
(* How much of number i there is in number j: a weight of a linear layer, what LayerNorm at its
   deviation makes of a channel, and for CP-LRP an attention weight.  There are no biases. *)
Variable coefficient : number -> number -> R.
Variable cp_lrp : bool. (* CP-LRP, or else AttnLRP *)

Definition linear_in (j : number) (xs : list number) := Linear number xs (map (coefficient j) xs) 0.
Definition added (x y : number) := Linear number [x; y] [1; 1] 0.
Definition all {A} (f : nat -> A) (n : nat) : list A := map f (seq 0 n).

Definition bert (j : number) : operation number :=
  match j with
  | Stream O _ _ => Input number
  | Stream (S l) t _ => linear_in j (all (Sum2 l t) width)
  | Query l _ t _ | Key l _ t _ | Value l _ t _ => linear_in j (all (Stream l t) width)
  | Logit l h t s => Products number scale 2 (all (fun c => [Query l h t c; Key l h s c]) size)
  | Weight l h t s =>
      if cp_lrp then Held number (all (Logit l h t) tokens)
      else Softmax number (all (Logit l h t) s) (Logit l h t s)
             (map (Logit l h t) (seq (S s) (tokens - S s)))
  | Read l h t c =>
      if cp_lrp then linear_in j (all (fun s => Value l h s c) tokens)
      else Products number 1 2 (all (fun s => [Weight l h t s; Value l h s c]) tokens)
  | Attended l t _ => linear_in j (flat_map (fun h => all (Read l h t) size) (seq 0 heads))
  | Sum1 l t c => added (Attended l t c) (Stream l t c)
  | Norm1 l t _ => linear_in j (all (Sum1 l t) width)
  | Up l t _ => linear_in j (all (Norm1 l t) width)
  | Active l t c => Activation number (Up l t c)
  | Down l t _ => linear_in j (all (Active l t) hidden)
  | Sum2 l t c => added (Down l t c) (Norm1 l t c)
  end.

Variables v start rel : number -> R.
Variable nodes : list number.

Lemma bert_shaped j : shaped number (bert j).
Proof.
  assert (P : forall f g n, Forall (fun t => length t = 2%nat) (all (fun s => [f s; g s : number]) n))
    by (intros; apply Forall_forall; intros t T; apply in_map_iff in T as [? [<- _]]; reflexivity).
  destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?map_length; auto; destruct cp_lrp; simpl; auto;
    apply map_length.
Qed.

(* By CP-LRP no message goes to an attention weight. *)
Lemma weights_receive_nothing l h t s j :
  cp_lrp = true -> ~ In (Weight l h t s) (operands number (bert j)).
Proof.
  intros C. destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?C; simpl; intros M;
    repeat (apply in_concat in M as [? [? M]] || apply in_flat_map in M as [? [_ M]]);
    try (apply in_map_iff in M as [? [M _]]; discriminate); try (destruct M as [M|[M|[]]]; discriminate);
    try (destruct M as [M|[]]; discriminate); try easy.
  apply in_map_iff in H as [? [<- _]]. destruct M as [M|[M|[]]]; discriminate.
Qed.

(* Theorem 25d: "As epsilon -> 0 and without biases, in BERT layers of any width the softmax alone
   absorbs: by CP-LRP, which passes it by, they conserve exactly."  The inputs are the numbers
   Stream 0 t c; all other relevance that starts anywhere, but at attention weights, arrives there,
   less by AttnLRP R (1 - u + ubar) of every attention weight. *)
Theorem theorem_25d_only_the_softmax_absorbs :
  propagated number number_dec v 0 bert nodes start rel ->
  (forall j, In j nodes -> denominator number v 0 (bert j) <> 0) ->
  (forall l h t s, start (Weight l h t s) = 0) ->
  let inputs := total number nodes (fun j => kept number (bert j) (rel j)) in
  let softmax := total number nodes (fun j => absorbed number v 0 (bert j) Taylor (rel j)) in
  total number nodes start = inputs + softmax /\ (cp_lrp = true -> softmax = 0).
Proof.
  intros P N Z inputs softmax. split.
  - rewrite (kept_or_absorbed number number_dec v 0 bert nodes start rel P)
      by (auto using bert_shaped).
    f_equal. apply sum_ext. intros j J. unfold absorbed_in_all. simpl.
    enough (E : absorbed number v 0 (bert j) Constant (rel j) = 0
      /\ absorbed number v 0 (bert j) Bias (rel j) = 0
      /\ absorbed number v 0 (bert j) Stabiliser (rel j) = 0) by (destruct E as [-> [-> ->]]; ring).
    destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?push_0; unfold Rdiv;
      try (repeat split; ring); destruct cp_lrp eqn:C; simpl; rewrite ?push_0; unfold Rdiv; repeat split; try ring.
    destruct P as [_ [_ P]]. rewrite (P _ J), Z. rewrite Rplus_0_l.
    unfold total. rewrite (sum_ext _ (fun _ => 0)), sum_zero; [reflexivity|]. intros j _.
    unfold message. rewrite (sum_ext _ (fun _ => 0)), sum_zero; [reflexivity|]. intros [i q] M.
    apply in_combine_l in M. destruct (number_dec _ _) as [E|]; [|reflexivity]. simpl in E. subst i.
    now apply (weights_receive_nothing _ _ _ _ _ C) in M.
  - intros C. unfold softmax, total. rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|].
    intros j _. destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?C; reflexivity.
Qed.
End Bert.
